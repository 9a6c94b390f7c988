"""The types that the dashboard is checked with are those of the answers that the server documents."""

from __future__ import annotations

from pathlib import Path

from tests.kit import sqlite
from tests.kit.http import Host
from tests.server.calling import Caller
from web.tools import api_types


def test_the_types_are_those_of_the_openapi_document(http_host: Host, tmp_path: Path) -> None:
    with sqlite.harness(tmp_path) as harness:
        harness.board()
        url, key = http_host.serve(harness.recipe())
        document = Caller(url, key).get("/openapi.json").body
        http_host.stop(url)
    assert api_types.TARGET.read_text() == api_types.generated(document), "run: python -m web.tools.api_types"
