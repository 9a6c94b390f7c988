"""What is generated for the dashboard is what the server documents, and what the tables of the rules say."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kit import sqlite
from tests.kit.http import Host
from tests.server.calling import Caller
from web.tools import api_types, tables


def test_the_types_are_those_of_the_openapi_document(http_host: Host, tmp_path: Path) -> None:
    with sqlite.harness(tmp_path) as harness:
        harness.board()
        url, key = http_host.serve(harness.recipe())
        document = Caller(url, key).get("/openapi.json").body
        http_host.stop(url)
    assert api_types.TARGET.read_text() == api_types.generated(document), "run: python -m web.tools.api_types"


def test_the_tables_are_those_of_the_rules() -> None:
    for path, text in tables.generated().items():
        assert path.read_text() == text, "run: python -m web.tools.tables"


def test_no_other_module_has_an_action_or_a_colour_of_an_event() -> None:
    made = tables.generated().keys()
    for path in tables.SOURCE.rglob("*.ts*"):
        if path not in made:
            assert not re.search(r"""\bverb: "|\b(owner_died|force_released|offer_lapsed)\b""", path.read_text()), path
