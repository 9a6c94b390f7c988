"""What tests of PostgreSQL share. Boards of these tests that are files, and what their processes write down, live in
memory if they can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import folder
from tests.kit import postgres
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer

__all__ = ["folder"]


@pytest.fixture
def harness(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, tmp_path) as made:
        yield made
