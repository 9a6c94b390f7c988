"""What a caller gives is encoded once and before the store takes its lock: for as long as it is held, all others wait.

The encoders themselves are watched, on real stores: what they are given, and whether the store holds its lock then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.pq import TransactionStatus

from dibs.board import Board
from dibs.store.postgres.transaction import PostgresTransaction
from dibs.store.sql import rows
from dibs.testing.harness import Harness
from dibs.text import json_text
from tests.kit import postgres, sqlite, vault
from tests.kit.postgres_server import PostgresServer

FIRST, SECOND = "first given", "given later"
LONG = {"log": [f"{FIRST} {number}" for number in range(200)]}
OTHER = {"log": [f"{SECOND} {number}" for number in range(200)]}
TEXT = "a long text\n" * 200


class Encoders:
    """The calls of the encoders with what the caller of a verb gave: whether the store held its lock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, board: Board) -> None:
        self._board = board
        self._connections: list[Any] = []
        self._mark = FIRST
        self.in_c: list[bool] = []
        self.in_python: list[bool] = []
        self._watch(monkeypatch, json_text, "_encode_in_c", self.in_c)
        self._watch(monkeypatch, json_text, "_quoted", self.in_python)
        self._watch(monkeypatch, json, "dumps", self.in_python)
        begin = PostgresTransaction.__init__

        def watched(t: PostgresTransaction, connection: Any, *given: Any, **asked: Any) -> None:
            self._connections.append(connection)
            begin(t, connection, *given, **asked)

        monkeypatch.setattr(PostgresTransaction, "__init__", watched)

    def is_locked(self) -> bool:
        engine = getattr(self._board.store, "engine", None)
        if engine is not None:
            return bool(engine._mutex._free.locked())
        idle = TransactionStatus.IDLE
        return any(not one.closed and one.info.transaction_status != idle for one in self._connections)

    def called(
        self, verb: Callable[..., object], *given: Any, mark: str | None = None, **asked: Any
    ) -> tuple[list[bool], list[bool]]:
        """What this verb called. A vault reads the file, too, with what was given before: that is not looked at."""
        self._mark = mark or (FIRST if FIRST in str((given, asked)) else SECOND)
        self.in_c.clear()
        self.in_python.clear()
        verb(*given, **asked)
        return list(self.in_c), list(self.in_python)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, calls: list[bool]) -> None:
        encode = getattr(module, name)

        def watched(data: Any, *given: Any, **asked: Any) -> Any:
            if self._mark in str(data):
                calls.append(self.is_locked())
            return encode(data, *given, **asked)

        monkeypatch.setattr(module, name, watched)


@pytest.fixture(params=["sqlite", "vault", "postgres"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        made: Harness = postgres.harness(server, tmp_path)
    else:
        made = sqlite.harness(tmp_path) if request.param == "sqlite" else vault.harness(tmp_path)
    with made as harness:
        yield harness


def test_an_object_is_encoded_once_and_before_the_lock(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    board = harness.board()
    encoders = Encoders(monkeypatch, board)
    me = board.start_session("me").id
    calls: dict[str, tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = {
        "add": (board.add, ("a",), {"id": "a", "payload": LONG, "body": TEXT}),
        "add_many": (board.add_many, ([{"id": "b", "title": "b", "payload": LONG}],), {}),
        "edit": (board.edit, ("a",), {"payload": OTHER, "body": TEXT + TEXT}),
        "claim_subject": (board.claim_subject, ("s",), {"session": me, "id": "s", "payload": LONG}),
        "progress": (board.progress, ("s", TEXT), {"session": me, "meta": LONG}),
        "submit": (board.submit, ("s",), {"session": me, "draft": TEXT, "links": LONG}),
    }
    for name, (verb, given, asked) in calls.items():
        assert encoders.called(verb, *given, **asked) == ([False], []), name
    board.claim("b", session=me)
    assert encoders.called(board.done, "b", session=me, links=LONG, cost=OTHER) == ([False], [])
    board.claim("a", session=me)
    assert encoders.called(board.fail, "a", session=me, reason=TEXT, cost=LONG) == ([False], [])


def test_a_kept_answer_has_the_text_too(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an idempotency key its fingerprint is taken as well, of parameters in an order of their own."""
    board = harness.board()
    encoders = Encoders(monkeypatch, board)
    me = board.start_session("me").id

    def add(**fields: Any) -> object:
        return board.add("a", id="a", **fields, request_id="1")

    assert encoders.called(add, payload=LONG, body=TEXT) == ([False], [False])
    assert encoders.called(add, payload=LONG, body=TEXT) == ([False], [False]), "the same answer again"
    assert encoders.called(board.edit, "a", payload=OTHER, request_id="2") == ([False], [False])
    board.claim("a", session=me)
    assert encoders.called(board.done, "a", session=me, links=LONG, request_id="3") == ([False], [False])
    assert board.get("a").item.payload == OTHER
    assert board.get("a").runs[0].links == LONG


def test_what_the_board_has_is_not_encoded_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb about an item that holds a long payload writes its text as it was read."""
    board = harness.board()
    me = board.start_session("me").id
    board.add("a", id="a", payload=LONG)
    encoders = Encoders(monkeypatch, board)
    for verb, asked in (
        (board.edit, {"title": "b"}),
        (board.claim, {"session": me}),
        (board.release, {"session": me}),
        (board.cancel, {}),
    ):
        assert encoders.called(verb, "a", **asked, request_id=verb.__name__, mark=FIRST) == ([], [])
    assert board.get("a").item.payload == LONG


def test_links_that_follow_earlier_ones_are_whole(harness: Harness) -> None:
    board = harness.board()
    board.add("a", id="a", payload=LONG)
    me = board.start_session("me").id
    grant = board.claim("a", session=me)
    board.annotate("a", token=grant.claim.token, session=me, links={"log": "one", "pr": "two"})
    board.done("a", session=me, links=LONG)
    assert board.get("a").runs[0].links == {"pr": "two", **LONG}


def test_the_text_of_an_object_is_that_of_what_it_holds() -> None:
    odd: Any = {"tuple": (1, 2), "deleted": "\x7f", "control": "\b\f\x01", "ä": 1.5}
    made = json_text.encoded(odd)
    assert made == {"tuple": [1, 2], "deleted": "\x7f", "control": "\b\f\x01", "ä": 1.5}
    assert json_text.dumps(made) == made.text == json_text.dumps(dict(made))
    assert json_text.dumps({"in": made}) == json_text.dumps({"in": dict(made)})
    assert json_text.line(made, compact=True) == json_text.line(dict(made), compact=True)


@pytest.mark.parametrize("text", ['{"a":\n"%s"}', '{"a":\r\n"%s"}', '{"a": "\x7f%s"}'])
def test_a_stored_text_that_is_not_one_plain_line_is_encoded_again(text: str) -> None:
    found = json_text.stored(text % ("x" * 2 * rows.LATE_MIN))
    assert json_text.dumps(found).isprintable()
