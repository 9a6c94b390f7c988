"""Answers are compressed for clients that accept it, and for no others."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.kit import sqlite
from tests.kit.http import Host


@pytest.fixture
def view(http_host: Host, tmp_path: Path) -> Iterator[HTTPConnection]:
    with sqlite.harness(tmp_path) as harness:
        harness.board().add_many([{"id": f"i{n}", "title": f"An item with number {n}"} for n in range(50)])
        url, key = http_host.serve(harness.recipe())
        connection = HTTPConnection(urlsplit(url).hostname or "", urlsplit(url).port)
        connection.key = key  # type: ignore[attr-defined]
        yield connection
        connection.close()
        http_host.stop(url)


def asked(connection: HTTPConnection, path: str, accept: str | None) -> tuple[str | None, bytes]:
    headers = {"Authorization": f"Bearer {connection.key}"}  # type: ignore[attr-defined]
    if accept is not None:
        headers["Accept-Encoding"] = accept
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    assert response.status == 200
    found = response.read()
    assert int(response.headers["Content-Length"]) == len(found)
    return response.headers["Content-Encoding"], found


def test_only_who_accepts_gzip_gets_it(view: HTTPConnection) -> None:
    coding, plain = asked(view, "/v1/items", None)
    assert coding is None
    for accept in ("identity", "br", "gzip;q=0", "xgzip", "*"):
        assert asked(view, "/v1/items", accept) == (None, plain), accept
    for accept in ("gzip", "br, gzip", "deflate, GZIP;q=0.5"):
        coding, packed = asked(view, "/v1/items", accept)
        assert (coding, gzip.decompress(packed)) == ("gzip", plain), accept
        assert len(packed) < len(plain) / 4
    assert asked(view, "/v1/items?limit=1", "gzip")[0] is None, "a packet is a packet"
    coding, packed = asked(view, "/v1/view", "gzip")
    assert coding == "gzip"
    assert len(json.loads(gzip.decompress(packed))["items"]) == 50
