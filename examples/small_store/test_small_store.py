"""The conformance suite over the small store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing.clock import FileClock
from dibs.testing.conformance import *  # noqa: F403  every group, also those that are added later
from dibs.testing.harness import Harness
from examples.small_store.opening import SmallHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with SmallHarness(tmp_path, FileClock(tmp_path / "clock")) as harness:
        yield harness
