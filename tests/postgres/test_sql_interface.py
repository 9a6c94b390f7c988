"""The board for clients in any language: functions that answer true or false, and two views, called by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.postgres.calls import settings_row
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.kit.postgres import PostgresHarness

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def board(harness: Harness) -> Board:
    made = harness.board()
    made.add("one", id="one")
    made.add("two", id="two", priority=8)
    return made


@pytest.fixture
def sql(harness: PostgresHarness) -> Iterator[Connection]:
    with psycopg.connect(harness.server.url(harness.database), autocommit=True) as connection:
        connection.execute('SET search_path = "$user", public, dibs')
        yield connection


def answer(sql: Connection, words: str) -> Any:
    row = sql.execute(words.encode()).fetchone()
    assert row is not None
    return row[0]


CLAIM = "SELECT claim_work_item(p_work_item_id => 'one', p_agent_type => 'coder', p_agent_instance_id => '%s')"


def test_one_of_two_instances_gets_the_item(board: Board, sql: Connection) -> None:
    assert answer(sql, CLAIM % "i-1") is True
    assert answer(sql, CLAIM % "i-2") is False
    claim = board.get("one").claim
    assert claim is not None
    assert (claim.session, claim.agent, claim.ttl_seconds) == ("i-1", "coder", DEFAULTS.ttl_seconds)
    assert {view.session.id for view in board.sessions()} == {"i-1", "i-2"}
    assert [line.code for line in board.activity()] == ["TASK_ALREADY_CLAIMED"]
    assert_sound(board)


def test_only_its_holder_releases_it(board: Board, sql: Connection) -> None:
    answer(sql, CLAIM % "i-1")
    assert answer(sql, "SELECT release_work_item('one', 'i-2', 'mine now')") is False
    assert answer(sql, "SELECT release_work_item('one', 'i-1', 'lunch')") is True
    assert answer(sql, "SELECT release_work_item('one', 'i-1')") is False
    assert board.get("one").item.status == "ready"
    assert board.runs(item="one")[0].reason == "lunch"


def test_stale_claims_are_released_and_counted(harness: Harness, board: Board, sql: Connection) -> None:
    answer(sql, CLAIM % "i-1")
    assert answer(sql, "SELECT release_stale_claims()") == 0
    harness.clock.advance(DEFAULTS.ttl_seconds)
    assert answer(sql, "SELECT release_stale_claims()") == 1
    assert answer(sql, CLAIM % "i-2") is True
    assert answer(sql, "SELECT release_work_item('one', 'i-1')") is False
    assert_sound(board)


def test_the_view_shows_no_claim_that_another_instance_would_get(
    harness: Harness, board: Board, sql: Connection
) -> None:
    answer(sql, CLAIM % "i-1")
    harness.clock.advance(DEFAULTS.ttl_seconds)
    assert answer(sql, "SELECT count(*) FROM agent_claimed_items") == 0
    assert answer(sql, CLAIM % "i-2") is True
    assert answer(sql, "SELECT claimed_by_instance FROM agent_claimed_items") == "i-2"


def test_an_admin_takes_an_item_back(board: Board, sql: Connection) -> None:
    assert answer(sql, "SELECT force_release_work_item('one')") is False
    answer(sql, CLAIM % "i-1")
    assert answer(sql, "SELECT force_release_work_item('one', p_admin => 'root', p_reason => 'stuck')") is True
    last = next(event for event in reversed(board.log("one")) if event.kind == "force_released")
    assert (last.actor, last.session, last.agent, last.data["reason"]) == ("root", "i-1", "coder", "stuck")


def test_the_views_tell_who_has_what_and_what_was_done(board: Board, sql: Connection) -> None:
    answer(sql, CLAIM % "i-1")
    answer(sql, CLAIM % "i-2")
    held = sql.execute(
        "SELECT work_item_id, assigned_agent, claimed_by_instance, is_expired FROM agent_claimed_items"
    ).fetchall()
    assert held == [("one", "coder", "i-1", False)]
    answer(sql, "SELECT release_work_item('one', 'i-1', 'lunch')")
    told = sql.execute(
        "SELECT action, agent_type, agent_instance_id, details FROM agent_activity ORDER BY created_at, action"
    ).fetchall()
    assert [line[:3] for line in told] == [
        ("claimed", "coder", "i-1"),
        ("claim_failed", "coder", "i-2"),
        ("released", "coder", "i-1"),
    ]
    assert told[0][3]["claimed"] is True
    assert told[1][3]["claimed"] is False
    assert told[2][3]["reason"] == "lunch"


def test_what_is_not_there_is_refused_and_told(board: Board, sql: Connection) -> None:
    assert answer(sql, "SELECT claim_work_item('nothing', 'coder', 'i-1')") is False
    assert [line.code for line in board.activity()] == ["TASK_NOT_FOUND"]


@pytest.mark.parametrize("call", ["('one', 'a b', 'i-1')", "('one', 'coder', '')", "('one', 'coder', NULL)"])
def test_a_name_that_is_none_changes_nothing(board: Board, sql: Connection, call: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        answer(sql, f"SELECT claim_work_item{call}")
    assert board.sessions(ended=True) == ()


def test_an_instance_belongs_to_one_agent(board: Board, sql: Connection) -> None:
    answer(sql, CLAIM % "i-1")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="another agent"):
        answer(sql, "SELECT claim_work_item('two', 'tester', 'i-1')")
    assert board.get("two").item.status == "ready"


def test_an_ended_instance_starts_again(board: Board, sql: Connection) -> None:
    answer(sql, CLAIM % "i-1")
    board.end_session("i-1")
    assert answer(sql, CLAIM % "i-1") is True
    assert board.get("one").item.token == 2


def test_an_ended_instance_stays_its_agents_and_its_keys(board: Board, sql: Connection) -> None:
    board.end_session(board.start_session("tester", id="i-1").id)
    board.end_session(board.start_session("coder", id="i-2", key="k").id)
    before = board.sessions(ended=True)
    for instance, why in (("i-1", "another agent"), ("i-2", "is bound to a key")):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=why):
            answer(sql, CLAIM % instance)
    assert board.sessions(ended=True) == before
    assert board.get("one").item.status == "ready"


def test_its_settings_are_those_every_board_starts_with(sql: Connection) -> None:
    same = f"SELECT dibs.default_settings() = '{settings_row(DEFAULTS)}'::dibs.settings"
    assert answer(sql, same) is True


def test_a_client_needs_no_rights_on_any_table(board: Board, sql: Connection) -> None:
    sql.execute(
        "CREATE ROLE someone; GRANT USAGE ON SCHEMA dibs TO someone;"
        " GRANT EXECUTE ON FUNCTION dibs.claim_work_item, dibs.release_work_item TO someone;"
        " GRANT SELECT ON dibs.agent_claimed_items, dibs.agent_activity TO someone"
    )
    try:
        sql.execute("SET ROLE someone")
        assert answer(sql, CLAIM % "i-1") is True
        assert answer(sql, "SELECT count(*) FROM agent_claimed_items") == 1
        for forbidden in (
            "SELECT count(*) FROM dibs.items",
            "SELECT dibs.force_release_work_item('one')",
            "SELECT dibs.sweep('[]', 1, dibs.default_settings())",
            "UPDATE dibs.claims SET session = 'mine'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                sql.execute(forbidden.encode())
    finally:
        sql.execute("RESET ROLE; DROP OWNED BY someone; DROP ROLE someone")


def test_a_function_in_a_transaction_of_another_kind_says_so(board: Board, sql: Connection) -> None:
    sql.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    with pytest.raises(psycopg.errors.InvalidTransactionState, match="read committed"):
        answer(sql, CLAIM % "i-1")
    sql.execute("ROLLBACK")
    assert board.get("one").item.status == "ready"
