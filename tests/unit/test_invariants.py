"""The invariant checker: a sound board passes, and each kind of damage, done behind the store's back, is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from dibs.board import Board
from dibs.testing import sqlite
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, session
from dibs.testing.invariants import violations


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """A board on which a bit of everything has happened."""
    with sqlite.harness(tmp_path) as harness:
        board = harness.board()
        added(board, "free", "held", "done", "back", "lapsed")
        me = session(board, "ann")
        for id in ("held", "done", "back", "lapsed"):
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS if id == "lapsed" else 7200)
        board.done("done", session=me)
        board.release("back", session=me)
        board.edit("free", title="other")
        expire(harness)
        assert violations(board) == []
        yield board


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM items WHERE id = 'back'", "back was added and is gone"),
        ("UPDATE items SET status = 'lost' WHERE id = 'free'", "free was added and is gone"),
        ("UPDATE items SET status = 'ready' WHERE id = 'done'", "status is 'ready'"),
        ("UPDATE items SET token = token + 1 WHERE id = 'back'", "token is 2"),
        ("UPDATE items SET token = token - 1 WHERE id = 'back'", "token is 0"),
        ("UPDATE items SET strikes = 3 WHERE id = 'back'", "strikes is 3"),
        ("UPDATE items SET attempts = 9 WHERE id = 'held'", "attempts is 9"),
        ("UPDATE items SET title = 'untold' WHERE id = 'held'", "title is 'untold'"),
        ("DELETE FROM events WHERE item = 'back' AND number = 2", "event 3 stands where 2 belongs"),
        ("DELETE FROM events WHERE item = 'done' AND number = 3", "its history says"),
        ("DELETE FROM events WHERE item = 'free'", "free is there and has no history"),
        ("UPDATE events SET actor = '' WHERE item = 'back' AND number = 3", "names no actor"),
        ("UPDATE events SET session = NULL WHERE item = 'back' AND number = 3", "does not name its holder"),
        ("UPDATE events SET token = 5 WHERE item = 'held' AND number = 2", "token 5 follows token 0"),
        ("UPDATE events SET status = 'done' WHERE item = 'free' AND number = 2", "leads to done"),
        ("UPDATE events SET kind = 'vanished' WHERE item = 'free' AND number = 2", "unknown kind"),
        ("DELETE FROM runs WHERE item = 'back'", "run ('back', 1) is missing"),
        ("UPDATE runs SET outcome = 'done' WHERE item = 'back'", "outcome is 'done'"),
        ("UPDATE runs SET outcome = 'released' WHERE item = 'held'", "outcome is 'released'"),
        ("UPDATE runs SET session = 'somebody' WHERE item = 'done'", "session is 'somebody'"),
        ("UPDATE claims SET token = 7 WHERE item = 'held'", "claimed under token 7"),
        ("UPDATE claims SET session = 'somebody' WHERE item = 'held'", "its claim says somebody"),
        ("UPDATE claims SET expires_at = deadline_at + 1 WHERE item = 'held'", "after its deadline"),
        ("DELETE FROM claims WHERE item = 'held'", "held is in progress and nobody ever let go of it"),
        ("UPDATE claims SET item = 'free' WHERE item = 'held'", "free is ready and claimed"),
    ],
)
def test_damage_is_found(board: Board, tmp_path: Path, damage: str, said: str) -> None:
    raw = apsw.Connection(str(tmp_path / "board.db"))
    raw.execute(damage)
    assert raw.changes() == 1 or "events" in damage
    raw.close()
    found = violations(board)
    assert any(said in line for line in found), found
