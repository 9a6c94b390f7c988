"""Long bodies and payloads have a table of their own, so that a change of status does not write them again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.sql import rows
from dibs.store.sqlite.store import SqliteStore
from dibs.store.sqlite.transaction import LONG_TEXTS_MIN
from dibs.text import json_text

LONG = {"log": "line\n" * 20_000}
#: Pages that `next` and `done` write for an item without a payload, and some more for pages that split.
PAGES_MAX = 40


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    with Board(SqliteStore(str(tmp_path / "board.db"), DEFAULTS, create=True)) as board:
        yield board


def stored(board: Board) -> list[tuple[str, int, int]]:
    """Each item with the lengths of its payload in its own row and in the other table."""
    found = apsw.Connection(board.store.path).execute(  # type: ignore[attr-defined]
        "SELECT id, length(items.payload), coalesce(length(long_texts.payload), 0)"
        " FROM items LEFT JOIN long_texts ON item = id ORDER BY id"
    )
    return list(found)


def test_a_claim_and_its_end_do_not_write_a_long_payload_again(board: Board, tmp_path: Path) -> None:
    board.add("x", id="x", payload=LONG)
    me = board.start_session("me").id
    apsw.Connection(str(tmp_path / "board.db")).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (grant,) = board.next(session=me)
    assert grant.item.payload == LONG
    assert board.done("x", session=me).item.payload == LONG
    assert os.stat(tmp_path / "board.db-wal").st_size < PAGES_MAX * (4096 + 24)


def test_a_long_payload_is_decoded_by_who_reads_it_only(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def decode(text: str) -> object:
        if len(text) >= rows.LATE_MIN:
            decoded.append(text)
        return json_text.stored(text)

    monkeypatch.setattr(rows, "stored", decode)
    board.add("x", id="x", payload=LONG)
    me = board.start_session("me").id
    (grant,) = board.next(session=me)
    ended = board.done("x", session=me)
    assert decoded == []
    assert grant.item.payload == ended.item.payload == LONG
    assert len(decoded) == 2
    assert grant.item.payload is grant.item.payload, "decoded once"
    assert len(decoded) == 2


def test_a_payload_moves_when_an_edit_makes_it_long_or_short(board: Board) -> None:
    board.add("x", id="x", body="a body")
    short = stored(board)
    board.edit("x", payload=LONG)
    assert stored(board)[0][1] == 0
    assert (board.get("x").item.payload, board.get("x").item.body) == (LONG, "a body")
    assert board.list()[0].payload == LONG
    board.edit("x", body="b" * LONG_TEXTS_MIN, payload={})
    assert (board.get("x").item.payload, board.get("x").item.body) == ({}, "b" * LONG_TEXTS_MIN)
    board.edit("x", body="")
    assert stored(board) == short
    assert (board.get("x").item.payload, board.get("x").item.body) == ({}, "")


def test_a_long_payload_is_exported_imported_and_pruned(board: Board, tmp_path: Path) -> None:
    board.add("x", id="x", payload=LONG)
    records = list(board.store.export())
    with Board(SqliteStore(str(tmp_path / "copy.db"), DEFAULTS, create=True)) as copy:
        copy.store.load(records)
        assert copy.get("x").item.payload == LONG
        assert list(copy.store.export()) == records
        assert stored(copy) == stored(board)
        copy.cancel("x")
        assert copy.store.prune(older_than_seconds=0, limit=10).items == 1
        database_of_copy = apsw.Connection(str(tmp_path / "copy.db"))
        assert database_of_copy.execute("SELECT count(*) FROM long_texts").fetchall() == [(0,)]
