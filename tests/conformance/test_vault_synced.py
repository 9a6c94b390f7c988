"""The suite over a vault that is a clone: each claim and each end is a push that its hub has accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing import vault
from dibs.testing.conformance import *  # noqa: F403
from dibs.testing.harness import Harness
from tests.vault.clones import make_clone, make_hub


@pytest.fixture
def harness(folder: Path) -> Iterator[Harness]:
    make_hub(folder)
    make_clone(folder, "vault")
    with vault.harness(folder) as harness:
        yield harness
