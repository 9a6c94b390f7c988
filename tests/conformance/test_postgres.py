"""The whole suite over the PostgreSQL store; with `DIBS_TEST_PGBOUNCER=1`, through a PgBouncer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing.conformance import *  # noqa: F403  every group, also those that are added later
from dibs.testing.harness import Harness
from tests.kit import postgres
from tests.kit.postgres_server import PostgresServer

POOLED = os.environ.get("DIBS_TEST_PGBOUNCER", "") not in ("", "0")


@pytest.fixture
def harness(request: pytest.FixtureRequest, postgres_server: PostgresServer, folder: Path) -> Iterator[Harness]:
    way: PostgresServer = request.getfixturevalue("pgbouncer" if POOLED else "postgres_server")
    with postgres.harness(postgres_server, folder, way=way) as harness:
        yield harness
