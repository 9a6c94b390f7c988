"""The whole suite over HTTP, on a server with a SQLite board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing.conformance import *  # noqa: F403  every group, also those that are added later
from dibs.testing.harness import Harness
from tests.kit import sqlite
from tests.kit.http import Host, HttpHarness


@pytest.fixture
def harness(http_host: Host, folder: Path) -> Iterator[Harness]:
    with HttpHarness(sqlite.harness(folder), [http_host]) as harness:
        yield harness
