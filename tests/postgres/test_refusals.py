"""A refusal is explained from the rows as they are a moment later. One whose reason has gone by then, or is known only
to a newer function, is no mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from dibs.board import Board
from dibs.errors import DibsError, ItemNotClaimable, StoreUnavailable, StoreUnusable
from dibs.testing.conformance.asking import added
from dibs.testing.invariants import assert_sound
from tests.kit import postgres
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer
from tests.kit.waiting import PATIENCE_SECONDS, until

#: The facts are looked up only once the lock 1 can be had.
SLOW_FACTS = """
DO $do$
BEGIN
    EXECUTE regexp_replace(pg_get_functiondef('dibs.facts'::regproc), '\\mBEGIN\\M',
                           'BEGIN PERFORM pg_advisory_xact_lock_shared(1);');
END $do$
"""
#: `claim` of a newer schema, which refuses every claim with this code.
NEW_REASON = """
DO $do$
BEGIN
    EXECUTE replace(pg_get_functiondef('dibs.claim'::regproc), 'WHEN limits.code IS NOT NULL', 'WHEN true THEN ''{}''
                    WHEN limits.code IS NOT NULL');
END $do$
"""
WAITING = """
SELECT 1 FROM pg_locks JOIN pg_database ON database = pg_database.oid
WHERE datname = current_database() AND locktype = 'advisory' AND objid = 1 AND NOT granted
"""


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, folder) as harness:
        yield harness


def _touched(board: Board) -> None:
    added(board, "y", resources=["src"])
    board.claim("y", session="t")
    board.edit("x", resources=["src/a"])


def _untouched(board: Board) -> None:
    board.release("y", session="t")


def _forbidden(board: Board) -> None:
    board.set_agent("ann", allowed_actions=["other"])


def _allowed(board: Board) -> None:
    board.set_agent("ann")


def _full(board: Board) -> None:
    added(board, "y")
    board.set_agent("bob", max_claims=1)
    board.start_session("bob", id="b")
    board.claim("y", session="b")


def _roomy(board: Board) -> None:
    board.set_agent("bob", max_claims=5)


@pytest.mark.parametrize(
    ("session", "hinder", "stop_hindering"),
    [("s", _touched, _untouched), ("s", _forbidden, _allowed), ("b", _full, _roomy)],
    ids=["RESOURCE_BUSY", "FORBIDDEN", "AGENT_AT_CAPACITY"],
)
def test_a_reason_that_has_gone_is_no_mistake(
    harness: PostgresHarness, session: str, hinder: Callable[[Board], None], stop_hindering: Callable[[Board], None]
) -> None:
    board = harness.board()
    added(board, "x")
    board.start_session("ann", id="s")
    board.start_session("cat", id="t")
    hinder(board)
    with (
        closing(psycopg.connect(harness.server.url(harness.database), autocommit=True)) as connection,
        ThreadPoolExecutor(1) as threads,
    ):
        connection.execute(SLOW_FACTS)
        connection.execute("SELECT pg_advisory_lock(1)")
        try:
            claim = threads.submit(board.claim, "x", session=session)
            until(lambda: claim.done() or bool(connection.execute(WAITING).fetchall()))
            assert not claim.done(), "it was not refused"
            stop_hindering(harness.board())
        finally:
            connection.execute("SELECT pg_advisory_unlock(1)")
        found = claim.exception(PATIENCE_SECONDS)
    assert found is None or (isinstance(found, DibsError) and not isinstance(found, StoreUnavailable)), found
    assert_sound(board)


@pytest.mark.parametrize("code", ["TASK_NOT_CLAIMABLE", "A_NEW_CODE"])
def test_a_client_of_the_schema_before_is_refused_by_a_new_reason(harness: PostgresHarness, code: str) -> None:
    board = harness.board()
    added(board, "x")
    board.start_session("ann", id="s")
    with closing(psycopg.connect(harness.server.url(harness.database), autocommit=True)) as connection:
        connection.execute(NEW_REASON.format(code))
    with pytest.raises(ItemNotClaimable, match="x could not be claimed"):
        board.claim("x", session="s")


def test_a_kept_answer_that_is_no_json_is_a_refusal_and_not_an_error_of_python(harness: PostgresHarness) -> None:
    board = harness.board()
    board.add("t", id="kept", request_id="again")
    with psycopg.connect(harness.server.url(harness.database), autocommit=True) as connection:
        connection.execute("UPDATE dibs.requests SET answer = '{broken'")
    with pytest.raises(StoreUnusable, match="restore a backup"):
        board.add("t", id="kept", request_id="again")
