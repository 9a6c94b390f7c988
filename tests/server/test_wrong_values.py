"""Bodies and queries with values of wrong types: refused as INVALID by their names, and nothing changes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given

from dibs.board import Board
from dibs.server.api import schemas
from dibs.verbs import BY_NAME
from tests.kit import sqlite
from tests.kit.http import Host
from tests.kit.wrong_values import CALLS, EXAMPLES, INSTEAD, PARAMETERS, everything, prepared, wrong_for
from tests.server.attacking import Caller


@pytest.fixture(scope="module")
def served(http_host: Host) -> Iterator[tuple[Board, Caller]]:
    with tempfile.TemporaryDirectory() as folder, sqlite.harness(folder) as harness:
        board = harness.board()
        prepared(board)
        url, key = http_host.serve(harness.recipe())
        yield board, Caller(url, key)
        http_host.stop(url)


def in_path(verb: str) -> set[str]:
    return {part[1:-1].partition(":")[0] for part in BY_NAME[verb].path.split("/") if part.startswith("{")}


def given_in(method: str) -> list[tuple[str, str, str]]:
    """The parameters that requests of this kind give outside of the path."""
    return [
        (verb, name, hint)
        for verb, name, hint in PARAMETERS
        if (BY_NAME[verb].method == "GET") == (method == "GET")
        and name in schemas.parameters_of(verb, without=frozenset(in_path(verb)))
    ]


def path_of(verb: str, arguments: dict[str, Any]) -> str:
    path = BY_NAME[verb].path
    for name in in_path(verb):
        path = path.replace(f"{{{name}}}", arguments.pop(name)).replace(f"{{{name}:path}}", arguments.pop(name, ""))
    return path


def is_json(value: object) -> bool:
    """Whether JSON has this very value."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def check_refused(answer: Any, name: str, value: object) -> None:
    assert (answer.status, answer.code) == (422, "INVALID"), f"{name}={value!r:.200}: {answer.status} {answer.body}"
    # What no parser of JSON takes is refused as a body.
    assert answer.json["facts"]["field"] in (name.rstrip("_"), "body"), f"{name}={value!r:.200}: {answer.body}"


BODIES = given_in("POST")
QUERIES = [(verb, name, hint) for verb, name, hint in given_in("GET") if hint != "str | None"]
#: What a query cannot say for an annotation.
NO_SUCH = {"int": "x", "bool": "maybe", "float": "nan", "Iterable[str]": "a\0b", "int | str": "soon", "str": "a\0b"}


@pytest.mark.parametrize(("verb", "name", "hint"), BODIES, ids=[f"{verb}-{name}" for verb, name, _ in BODIES])
def test_a_body_with_a_wrong_value(served: tuple[Board, Caller], verb: str, name: str, hint: str) -> None:
    board, caller = served
    before = everything(board)

    @EXAMPLES
    @given(value=wrong_for(hint).filter(is_json))
    def refuses(value: object) -> None:
        body = {**INSTEAD.get((verb, name), CALLS[verb])}
        path = path_of(verb, body)
        check_refused(caller(BY_NAME[verb].method, path, {**body, name: value}), name, value)

    refuses()
    assert everything(board) == before


@pytest.mark.parametrize(("verb", "name", "hint"), QUERIES, ids=[f"{verb}-{name}" for verb, name, _ in QUERIES])
def test_a_query_with_a_wrong_value(served: tuple[Board, Caller], verb: str, name: str, hint: str) -> None:
    _, caller = served
    asked = {**CALLS[verb]}
    path = path_of(verb, asked)
    value = NO_SUCH[hint.removesuffix(" | None")]
    check_refused(caller("GET", f"{path}?{urlencode({**asked, name.rstrip('_'): value})}"), name, value)
