"""Ids that no verb would have let in, on a board that somebody wrote by hand: a terminal is not steered by them."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.e2e.conftest import Dibs

HOSTILE = "a\x1b]0;owned\x07\x1b[2J\x1b[8mb\u202e"


@pytest.fixture
def hostile(dibs: Dibs) -> Path:
    path = dibs.folder / ".dibs" / "board.db"
    dibs.ok("add", "t", "--id", "held")
    dibs.ok("claim", "held")
    dibs.ok("add", "t", "--id", "free")
    board = apsw.Connection(str(path))
    for table in ("items", "events", "runs", "claims"):
        column = "id" if table == "items" else "item"
        board.execute(f"UPDATE {table} SET {column} = ? || {column}", [HOSTILE])  # noqa: S608 - names of this test's own
    board.execute("UPDATE claims SET agent = ?, expires_at = 0", [HOSTILE])
    board.close()
    return path


def test_no_command_lets_an_id_through_to_a_terminal(dibs: Dibs, hostile: Path) -> None:
    lines = ("list", "events", "runs", "stats", "doctor", "sweep", "who", "next", "sessions", "why free", "log free")
    script = "\n".join(f"dibs {line} 2>&1" for line in lines)
    shown = dibs.terminal(script)
    plain = dibs.shell(script).stdout
    assert "Traceback" not in shown + plain
    for text in (shown, plain):
        assert text.count("owned") > 5, "the ids were shown"
        for sign in ("\x1b]", "\x07", "\x1b[2J", "\x1b[8m", "\u202e"):
            assert sign not in text, (sign, text)
