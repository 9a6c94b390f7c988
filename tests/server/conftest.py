"""Where boards of these tests live: see the suite's. A server for the tests of a module, which each finds empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.conftest import folder  # noqa: F401
from tests.kit.http import Host
from tests.server.calling import Reused, Served, reused_server


@pytest.fixture(scope="module")
def reused(http_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reused]:
    with reused_server(http_host, tmp_path_factory.mktemp("board")) as reused:
        yield reused


@pytest.fixture
def server(reused: Reused) -> Served:
    return reused.anew()
