"""The whole suite over a vault that is a clone: each claim and each end is a push to its hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing.conformance import *  # noqa: F403  every group, also those that are added later
from dibs.testing.harness import Harness
from tests.kit import vault


@pytest.fixture
def harness(folder: Path) -> Iterator[Harness]:
    with vault.synced_harness(folder) as harness:
        yield harness
