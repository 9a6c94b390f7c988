"""The whole suite over the SQLite store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing.conformance import *  # noqa: F403  every group, also those that are added later
from dibs.testing.harness import Harness
from tests.kit import sqlite

#: Races and crashes are run where a commit costs what it costs, since that decides who comes next and what is cut off.
ON_DISK = ("TestRacing", "TestCrash")
#: But for this one: of 64 claims all but one are refused, and each of these waits for the disk as well.
IN_MEMORY = "test_of_sixty_four_processes_one_wins_each_round"


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    on_disk = request.cls is not None and request.cls.__name__ in ON_DISK and request.node.name != IN_MEMORY
    place: Path = request.getfixturevalue("tmp_path" if on_disk else "folder")
    with sqlite.harness(place) as harness:
        yield harness
