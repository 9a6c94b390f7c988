"""What a client in SQL gives is checked as over HTTP, and whatever it calls, the board can be restored and copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dibs import check
from dibs.board import Board, connect
from dibs.maintenance.doctor import examine
from dibs.model import AGENT
from dibs.rules.decision import BOARD
from dibs.rules.sessions import KEPT_PREFIXES
from dibs.server.auth.callers import KEY_ACTOR_PREFIX
from dibs.testing.harness import Harness
from dibs.testing.invariants import IN_TESTS, assert_sound
from tests.kit.postgres import PostgresHarness

Connection = psycopg.Connection[tuple[Any, ...]]

#: What is no id, and what is no name either, although a text column could hold it.
NO_ID = ("my item", "PROJ-1 ", "", "a\x1b[2J", "a\u202eb", "--help", "../x", "a\nb", "x" * 129, None)
NO_NAME = (*NO_ID[:-4], "x y", "x" * 129, None)
CLAIM = "SELECT dibs.claim_work_item(%s, %s, %s)"
NEXT = "SELECT * FROM dibs.claim_next_work_item(%s, %s)"
RELEASE = "SELECT dibs.release_work_item(%s, %s, %s)"
COMPLETE = "SELECT dibs.complete_work_item(%s, %s, %s, %s)"
FORCE = "SELECT dibs.force_release_work_item(%s, %s, %s)"


@pytest.fixture
def board(harness: Harness) -> Board:
    made = harness.board()
    for id in ("one", "two", "three", "four"):
        made.add("Fix login", id=id)
    return made


@pytest.fixture
def sql(harness: PostgresHarness) -> Iterator[Connection]:
    with psycopg.connect(harness.server.url(harness.database), autocommit=True) as connection:
        yield connection


def refused(sql: Connection, call: str, *given: Any, match: str | None = None) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=match):
        sql.execute(call.encode(), given)


def wrong(board: Board) -> list[str]:
    """What doctor finds, but for what servers of the tests are meant to have."""
    return [one.what for one in examine(board) if not one.late and not one.what.startswith(IN_TESTS)]


def comes_back(board: Board, folder: Path) -> None:
    """The board is backed up and restored, and copied into a file."""
    records = list(board.export())
    with connect(str(folder / "copy.db"), create=True, seeded=False) as copy:
        assert copy.load(records) == len(records)
    board.backup(str(folder / "backup"))
    board.restore(str(folder / "backup"))
    assert_sound(board)


def test_an_id_that_is_none_is_refused_and_leaves_nothing(board: Board, sql: Connection, tmp_path: Path) -> None:
    before = list(board.export())
    for id in NO_ID:
        refused(sql, CLAIM, id, "coder", "i-1")
        refused(sql, RELEASE, id, "i-1", "lunch")
        refused(sql, COMPLETE, id, "i-1", "success", None)
        refused(sql, COMPLETE, id, "i-1", "failure", None)
        refused(sql, FORCE, id, "you", "stuck")
    for name in NO_NAME:
        refused(sql, CLAIM, "one", name, "i-1")
        refused(sql, CLAIM, "one", "coder", name)
        refused(sql, NEXT, "coder", name)
        refused(sql, RELEASE, "one", name, "lunch")
        refused(sql, COMPLETE, "one", name, "success", None)
        refused(sql, COMPLETE, "one", name, "failure", None)
        if name is not None:
            refused(sql, FORCE, "one", name, "stuck")
    assert list(board.export()) == before
    comes_back(board, tmp_path)


def test_a_refused_call_is_recorded_so_that_the_board_comes_back(board: Board, sql: Connection, tmp_path: Path) -> None:
    """Also about an item or a session that does not exist."""
    for call, *given in (
        (CLAIM, "nothing", "coder", "i-1"),
        (RELEASE, "nothing", "nobody", "lunch"),
        (RELEASE, "one", "nobody", "lunch"),
        (COMPLETE, "one", "nobody", "success", None),
        (COMPLETE, "nothing", "i-1", "failure", None),
    ):
        assert sql.execute(call.encode(), given).fetchone() == (False,)
    assert len(board.activity()) == 5
    assert wrong(board) == []
    comes_back(board, tmp_path)


def test_a_reason_is_as_long_as_one_over_http_may_be(board: Board, sql: Connection, tmp_path: Path) -> None:
    most = "é" * (check.NOTE_BYTES_MAX // 2)
    for id in ("one", "two", "three", "four"):
        sql.execute(CLAIM.encode(), [id, "coder", "i-1"])
    before = list(board.export())
    refused(sql, RELEASE, "one", "i-1", most + "x", match=f"{check.NOTE_BYTES_MAX} is the most")
    refused(sql, COMPLETE, "two", "i-1", "success", most + "x", match="is the most")
    refused(sql, COMPLETE, "three", "i-1", "failure", most + "x", match="is the most")
    refused(sql, FORCE, "four", "you", most + "x", match="is the most")
    assert list(board.export()) == before
    for call, *given in (
        (RELEASE, "one", "i-1", most),
        (COMPLETE, "two", "i-1", "success", most),
        (COMPLETE, "three", "i-1", "failure", most),
        (FORCE, "four", "you", most),
    ):
        assert sql.execute(call.encode(), given).fetchone() == (True,)
    assert {run.reason for run in board.runs()} == {most}
    comes_back(board, tmp_path)


def test_a_blank_reason_of_a_force_release_is_none(board: Board, sql: Connection) -> None:
    sql.execute(CLAIM.encode(), ["one", "coder", "i-1"])
    sql.execute(FORCE.encode(), ["one", "you", "  "])
    assert [run.reason for run in board.runs()] == ["force released"]


def test_a_session_of_a_key_is_not_available_in_sql(board: Board, sql: Connection) -> None:
    """Whoever claims for it over HTTP keeps its items: also under its own name, and whether or not it has ended."""
    key, _ = board.create_key(AGENT, agent="bot")
    board.start_session("bot", id="bot-1", key=key.id)
    for id in ("one", "two", "three"):
        board.claim(id, session="bot-1")
    board.start_session("bot", id="bot-2", key=key.id)
    board.end_session("bot-2")
    before = list(board.export())
    for session in ("bot-1", "bot-2"):
        for call, *given in (
            (CLAIM, "four", "bot", session),
            (CLAIM, "one", "bot", session),
            (NEXT, "bot", session),
            (RELEASE, "one", session, "stolen"),
            (COMPLETE, "two", session, "success", "forged"),
            (COMPLETE, "three", session, "failure", "forged"),
        ):
            refused(sql, call, *given, match=f"{session} is bound to a key")
    assert list(board.export()) == before


def test_an_open_transaction_does_not_hold_a_session_of_a_key(
    board: Board, harness: PostgresHarness, sql: Connection
) -> None:
    """A refused call keeps no lock, although its transaction goes on from a savepoint."""
    key, _ = board.create_key(AGENT, agent="bot")
    board.start_session("bot", id="bot-1", key=key.id)
    sql.execute("BEGIN; SAVEPOINT before")
    refused(sql, CLAIM, "nothing", "bot", "bot-1")
    sql.execute("ROLLBACK TO before")
    refused(sql, RELEASE, "nothing", "bot-1", "stolen")
    sql.execute("ROLLBACK TO before")
    with closing(psycopg.connect(harness.server.url(harness.database), autocommit=True)) as other:
        other.execute("SELECT FROM dibs.sessions WHERE id = 'bot-1' FOR UPDATE NOWAIT")
    sql.execute("ROLLBACK")


def test_names_that_are_reserved_over_http_are_reserved_in_sql(board: Board, sql: Connection) -> None:
    """The history names `dibs` and keys by these names, and dibs keeps what GitHub said in these sessions."""
    before = list(board.export())
    for agent in (BOARD, f"{KEY_ACTOR_PREFIX}7f3a"):
        refused(sql, CLAIM, "one", agent, "i-1", match="reserved")
        refused(sql, NEXT, agent, "i-1", match="reserved")
    for session in (f"{prefix}example" for prefix in KEPT_PREFIXES):
        refused(sql, CLAIM, "one", "coder", session, match="reserved")
        refused(sql, NEXT, "coder", session, match="reserved")
        refused(sql, RELEASE, "one", session, "mine", match="reserved")
        refused(sql, COMPLETE, "one", session, "success", None, match="reserved")
    assert list(board.export()) == before


@pytest.mark.parametrize("code", ["a b", "x\x1b[2J", ""])
def test_a_line_of_the_log_that_is_not_valid_is_found_and_costs_no_board(
    board: Board, sql: Connection, tmp_path: Path, code: str
) -> None:
    """An earlier version recorded refusals in SQL unchecked."""
    sql.execute(CLAIM.encode(), ["nothing", "coder", "i-1"])
    sql.execute(
        "INSERT INTO dibs.activity (at, item, session, agent, action, code, details)"
        " VALUES (1, 'my item', 's', 'coder', 'claim_failed', %s, '{}')",
        [code],
    )
    (found,) = wrong(board)
    assert "a record (activity) is not valid" in found
    board.backup(str(tmp_path / "backup"))
    board.restore(str(tmp_path / "backup"))
    assert [line.item for line in board.activity()] == ["nothing"]
    assert wrong(board) == []


def test_a_record_that_could_not_be_restored_is_found(board: Board, sql: Connection) -> None:
    sql.execute(CLAIM.encode(), ["one", "coder", "i-1"])
    board.done("one", session="i-1")
    sql.execute("UPDATE dibs.runs SET reason = repeat('A', 1000001)")
    (found,) = [one for one in examine(board) if "is not valid" in one.what]
    assert (found.item, found.late) == ("one", False)
    assert "reason has 1000001 bytes" in found.what
