"""The files of the dashboard over HTTP: open to anybody, kept by browsers, unable to load or do anything else."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import make
from dibs.server import pages
from tests.dashboard import sizes
from tests.kit.http import Host
from tests.server.attacking import Caller, Served, served

GZIP = {"Accept-Encoding": "gzip"}


@pytest.fixture(scope="module")
def shop(http_host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if pages.INDEX not in pages.assets():
        pytest.skip("the dashboard is not built here; python -m web.tools.build says why")
    with served(http_host, tmp_path_factory.mktemp("assets")) as found:
        yield found


def loaded(page: bytes) -> list[str]:
    """What a page refers to."""
    return re.findall(r'(?:src|href)="([^"]+)"', page.decode())


def test_the_page_and_all_that_it_loads_need_no_key(shop: Served) -> None:
    page = shop.nobody("GET", "/")
    assert (page.status, page.headers.get_content_type()) == (200, "text/html")
    paths = loaded(page.body)
    assert len(paths) >= 3
    assert all(path.startswith("/assets/") for path in paths), "nothing comes from anywhere else"
    for path in paths:
        assert shop.nobody("GET", path).status == 200, path


def test_nothing_of_the_board_is_in_it(shop: Served) -> None:
    before = shop.nobody("GET", "/")
    shop.admin("POST", "/v1/items", {"id": "secret-plan", "title": "Secret plan"})
    after = shop.admin("GET", "/")
    assert (before.body, before.headers["ETag"]) == (after.body, after.headers["ETag"])


def test_neither_page_nor_worker_may_load_or_be_framed_from_elsewhere(shop: Served) -> None:
    for path in ("/", *loaded(shop.nobody("GET", "/").body)):
        policy = shop.nobody("GET", path).headers.get_all("Content-Security-Policy")
        assert policy is not None
        assert len(policy) == 1
        rules = [rule.strip() for rule in policy[0].split(";")]
        assert "default-src 'self'" in rules
        assert "frame-ancestors 'none'" in rules
        assert "unsafe" not in policy[0]
        assert "data:" not in policy[0]


def test_what_has_a_digest_in_its_name_is_kept_and_the_page_is_checked(shop: Served) -> None:
    page = shop.nobody("GET", "/")
    assert page.headers["Cache-Control"] == "no-cache"
    again = shop.nobody("GET", "/", headers={"If-None-Match": page.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    assert shop.nobody("GET", "/", headers={"If-None-Match": '"older"'}).status == 200
    for path in loaded(page.body):
        is_kept = "immutable" in shop.nobody("GET", path).headers["Cache-Control"]
        assert is_kept == path.endswith((".js", ".css")), path


def test_it_is_sent_compressed_to_those_who_accept_that(shop: Served) -> None:
    for path in ("/", *loaded(shop.nobody("GET", "/").body)):
        plain, packed = shop.nobody("GET", path), shop.nobody("GET", path, headers=GZIP)
        assert (plain.headers["Content-Encoding"], packed.headers["Content-Encoding"]) == (None, "gzip")
        assert gzip.decompress(packed.body) == plain.body
        assert packed.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("name", ["nothing.js", "../pages.py", "..%2fpages.py", "index.html", "index.html.gz", ""])
def test_there_is_nothing_else_to_be_had(shop: Served, name: str) -> None:
    assert shop.nobody("GET", f"/assets/{name}").status == 404


def test_the_first_load_has_at_most_20_kilobytes_and_charts_25_more(shop: Served) -> None:
    paths = ["/", *(path for path in loaded(shop.nobody("GET", "/").body))]
    found = {path: len(shop.nobody("GET", path, headers=GZIP).body) for path in paths}
    assert sum(found.values()) <= 20_000, found
    assert sizes.first_load() <= 20_000
    assert sizes.charts() <= 25_000


def test_without_a_build_the_server_says_how_to_build(tmp_path: Path) -> None:
    make(str(tmp_path / ".dibs" / "board.db"), folder=str(tmp_path))
    program = (
        "import pathlib, dibs.server.pages as pages; from dibs.cli.main import run; "
        f"pages.FOLDER = pathlib.Path({str(tmp_path)!r}) / 'nothing'; run()"
    )
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--json"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            nobody = Caller(json.loads(server.stdout.readline())["serving"]["url"])
            page = nobody("GET", "/")
            assert page.status == 503
            assert b"python -m web.tools.build" in page.body
            assert nobody("GET", "/livez").status == 200
        finally:
            server.kill()
