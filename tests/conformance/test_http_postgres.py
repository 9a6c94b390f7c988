"""The whole suite over HTTP, on two server processes that share a PostgreSQL board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing.conformance import *  # noqa: F403  every group, also those that are added later
from dibs.testing.harness import Harness
from tests.kit import postgres
from tests.kit.http import Host, HttpHarness
from tests.kit.postgres_server import PostgresServer


@pytest.fixture
def harness(
    postgres_server: PostgresServer, http_host: Host, second_http_host: Host, folder: Path
) -> Iterator[Harness]:
    with HttpHarness(postgres.harness(postgres_server, folder), [http_host, second_http_host]) as harness:
        yield harness
