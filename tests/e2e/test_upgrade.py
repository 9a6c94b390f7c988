"""Boards that an older dibs wrote are upgraded with everything in them: rows of schema 2, the oldest that is supported.

A database is as that version left it: the tables of the first two migrations, and the rows in `schema_2/`. The board
has items in every status, live and expired claims, a queue, drafts, limits, an answer that is kept for a request, and a
key.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg
import pytest

import dibs.store.postgres as postgres
from dibs.board import Board, migrate
from dibs.config import DEFAULTS
from dibs.errors import ClaimExpired, Invalid, ItemAlreadyClaimed, StoreUnusable
from dibs.maintenance.doctor import examine
from dibs.store.postgres.migrating import SCHEMA_VERSION as POSTGRES_VERSION
from dibs.store.postgres.store import PostgresStore
from dibs.store.sqlite.database import APPLICATION_ID, SCHEMA_VERSION, migration
from dibs.store.sqlite.store import SqliteStore
from dibs.testing.invariants import IN_TESTS
from tests.kit.database_clock import DatabaseClock, install
from tests.kit.postgres_server import PostgresServer

ROWS = Path(__file__).parent / "schema_2"
OLD = 2
#: A minute and a half after the last row was written: the claim of `held` lives, that of `expired` has expired.
NOW = 1_794_912_410_000
STATUSES = {
    "held": "in_progress",
    "queued": "done",
    "finished": "done",
    "failed": "scheduled",
    "cancelled": "cancelled",
    "rejected": "rejected",
    "drafted": "pending_approval",
    "parked": "parked",
    "waits": "blocked",
    "later": "scheduled",
    "ready": "ready",
    "expired": "in_progress",
}


def old_file(path: Path) -> None:
    connection = apsw.Connection(str(path))
    for number in range(1, OLD + 1):
        connection.execute(migration(number))
    connection.execute((ROWS / "sqlite.sql").read_text(encoding="utf-8"))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {OLD}")
    connection.close()


def old_database(url: str) -> None:
    folder = Path(next(iter(postgres.__path__))) / "migrations"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA dibs")
        connection.execute("CREATE TABLE dibs.schema_version (version integer NOT NULL)")
        connection.execute("INSERT INTO dibs.schema_version (version) VALUES (%s)", (OLD,))
        for number in range(1, OLD + 1):
            connection.execute((folder / f"{number:04}.sql").read_bytes())
        connection.execute((ROWS / "postgres.sql").read_bytes())


def check_everything_is_there(board: Board) -> None:
    found = {item.id: item.status for item in board.list(statuses=tuple(sorted(set(STATUSES.values()))), limit=100)}
    # The expired claim and the retry that is due are shown as a claim at this instant would find them.
    assert found == {**STATUSES, "expired": "ready", "failed": "ready"}
    held = board.get("held").item
    assert (held.title, held.body, held.payload, held.labels) == ("Held", "text", {"a": [1, 2.5, None, "ü"]}, ("web",))
    assert (held.priority, held.resources, held.token) == (8, ("src/api",), 1)
    done = board.get("finished")
    assert [(run.outcome, run.reason) for run in done.runs] == [("done", "it was the cookie"), ("released", "not now")]
    assert (done.runs[0].links, done.runs[0].cost) == ({"pr": "7"}, {"tokens": 12})
    assert board.get("drafted").runs[0].draft == "Dear customer"
    assert len(board.events(limit=1000)) == 38
    assert {agent.name: agent.sensitive_actions for agent in board.agents()}["mailer"] == ("send",)
    assert {view.session.id for view in board.sessions()} == {"coder-1", "coder-2", "fixer-1", "mailer-1"}
    (key,) = board.keys()
    assert key.agent == "coder"
    assert [entry.code for entry in board.activity()] == ["TASK_ALREADY_CLAIMED"]


def check_work_goes_on(board: Board) -> None:
    # The holder of before the upgrade goes on under its token, and nobody else gets the item.
    with pytest.raises(ItemAlreadyClaimed):
        board.claim("held", session="fixer-1")
    assert board.done("held", session="coder-1", token=1).item.status == "done"
    assert board.get("waits").item.status == "ready", "it waited for that"
    # The token of an expired claim is worth nothing, the next one is higher.
    assert board.claim("expired", session="coder-1").claim.token == 2
    with pytest.raises(ClaimExpired):
        board.done("expired", session="fixer-1", token=1, recover=False)
    # A request of before has another fingerprint: it is refused, and nothing is done twice.
    with pytest.raises(Invalid, match="already used"):
        board.done("queued", session="coder-1", request_id="r-1")
    board.approve("drafted", comment="send it")
    assert {grant.item.id for grant in board.next(session="fixer-1", n=10, projects=["default"])} >= {"waits"}
    check_sound(board)


def check_sound(board: Board) -> None:
    wrong = [finding.what for finding in examine(board) if not finding.late]
    assert [what for what in wrong if not what.startswith(IN_TESTS)] == []


def test_a_file_is_upgraded_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    old_file(path)
    board = Board(SqliteStore(str(path), DEFAULTS, clock=lambda: NOW), DEFAULTS, actor="you")
    check_everything_is_there(board)
    check_sound(board)
    check_work_goes_on(board)
    board.close()
    assert migrate(str(path), folder=str(tmp_path)) == (SCHEMA_VERSION, SCHEMA_VERSION)


def test_a_file_tells_which_versions_it_went_through(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    old_file(path)
    shutil.copy(path, tmp_path / "copy.db")
    assert migrate(str(tmp_path / "copy.db"), folder=str(tmp_path)) == (OLD, SCHEMA_VERSION)


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    name = f"{postgres_server.prefix}upgrade_{os.urandom(6).hex()}"
    postgres_server.create_database(name)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def test_a_database_is_upgraded_by_migrate(database: str, tmp_path: Path) -> None:
    old_database(database)
    with pytest.raises(StoreUnusable, match="update it with: dibs migrate"):
        PostgresStore(database, DEFAULTS)
    assert migrate(database, folder=str(tmp_path)) == (OLD, POSTGRES_VERSION)
    install(database)
    clock = DatabaseClock(database)
    try:
        clock.advance((NOW - clock.now()) / 1000)
        clock.freeze()
        board = Board(PostgresStore(database, DEFAULTS), DEFAULTS, actor="you")
        check_everything_is_there(board)
        check_work_goes_on(board)
        board.close()
    finally:
        clock.leave(database)
    assert migrate(database, folder=str(tmp_path)) == (POSTGRES_VERSION, POSTGRES_VERSION)
