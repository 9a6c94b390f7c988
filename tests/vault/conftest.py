"""Disks of a vault: with the system's own renames, and made of steps, as on file systems that lack them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.store.vault.disk import Disk


@pytest.fixture(params=[True, False], ids=["native", "in-steps"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    root = tmp_path / "vault"
    root.mkdir()
    disk = Disk(str(root), native=request.param)
    yield disk
    disk.close()
