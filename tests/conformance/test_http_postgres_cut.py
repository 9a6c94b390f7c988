"""Lost answers between a server and its PostgreSQL database, as those see it who call the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dibs.testing.conformance.lost_answers import TestLostAnswers
from dibs.testing.harness import Harness, Wire
from dibs.testing.proxy import CuttingProxy
from tests.kit import postgres
from tests.kit.http import Host, HttpHarness, open_board
from tests.kit.postgres_server import PostgresServer

__all__ = ["TestLostAnswers"]


class BehindHarness(HttpHarness):
    @contextmanager
    def wire(self) -> Iterator[Wire]:
        recipe, host = self.behind.recipe(), self._hosts[0]
        url = recipe["kwargs"]["url"]
        with CuttingProxy.before_postgres(url) as proxy:
            server = host.serve({**recipe, "kwargs": {**recipe["kwargs"], "url": proxy.url(url)}})
            try:
                with open_board(**{**self.recipe()["kwargs"], "servers": [server]}) as board:
                    yield Wire(board, proxy)
            finally:
                host.stop(server[0])


@pytest.fixture
def harness(postgres_server: PostgresServer, http_host: Host, folder: Path) -> Iterator[Harness]:
    with BehindHarness(postgres.harness(postgres_server, folder), [http_host]) as harness:
        yield harness
