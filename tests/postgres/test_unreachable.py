"""A database that cannot be had, or cannot be used: one line that says why, and whether waiting helps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import StoreUnavailable, StoreUnusable
from dibs.store.postgres import migrating
from dibs.store.postgres.migrating import migrate
from dibs.store.postgres.store import PostgresStore
from dibs.testing.conformance.asking import refused
from tests.kit import postgres
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import LocalServer, free_port

SETTINGS = DEFAULTS.replace(lock_wait_seconds=0.3)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """One that asks the role `guarded` for its password."""
    with LocalServer() as server:
        path = os.path.join(server.data, "pg_hba.conf")
        with open(path, encoding="utf-8") as file:
            trusting = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write("host all guarded 127.0.0.1/32 scram-sha-256\n" + trusting)
        with server.connect() as connection:
            connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def harness(server: LocalServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(server, folder) as harness:
        yield harness


def opened(url: str) -> None:
    PostgresStore(url, SETTINGS).close()


def assert_in_one_line(refusal: StoreUnavailable, *words: str) -> None:
    assert refusal.code == "STORE_UNAVAILABLE"
    assert "\n" not in refusal.message
    for word in words:
        assert word in refusal.message, refusal.message


def test_nobody_listens(server: LocalServer) -> None:
    refusal = refused(StoreUnavailable, opened, f"postgresql://postgres@127.0.0.1:{free_port()}/board")
    assert_in_one_line(refusal, "unreachable")
    assert refusal.facts["retry_after_seconds"] > 0
    assert refusal.exit_code == 75


@pytest.mark.parametrize(
    ("user", "database", "word"),
    [
        ("guarded:wrong", None, "password"),
        ("guarded", None, "password"),
        ("stranger", None, "stranger"),
        ("postgres", "nowhere", "nowhere"),
    ],
)
def test_a_wrong_url_is_told(harness: PostgresHarness, user: str, database: str | None, word: str) -> None:
    url = harness.server.url(database or harness.database).replace("postgres@", f"{user}@")
    with pytest.raises(StoreUnavailable) as raised:
        opened(url)
    assert_in_one_line(raised.value, word)
    assert "wrong@" not in raised.value.message, "a password is told"


@pytest.mark.parametrize(("user", "database"), [("guarded:wrong", None), ("stranger", None), ("postgres", "nowhere")])
def test_a_wrong_url_is_not_told_as_something_that_passes(
    harness: PostgresHarness, user: str, database: str | None
) -> None:
    refused(StoreUnusable, opened, harness.server.url(database or harness.database).replace("postgres@", f"{user}@"))


def test_what_is_not_allowed_is_told(harness: PostgresHarness) -> None:
    url = harness.server.url(harness.database).replace("postgres@", "guarded:right@")
    assert_in_one_line(refused(StoreUnusable, opened, url), "permission denied")


def test_there_is_no_board(server: LocalServer) -> None:
    server.create_database("empty")
    refusal = refused(StoreUnusable, opened, server.url("empty"))
    assert_in_one_line(refusal, "dibs init")
    assert refusal.facts["schema"] == 0
    assert refusal.exit_code == 1


@pytest.mark.parametrize(("version", "word"), [(99, "upgrade dibs"), (0, "dibs init")])
def test_the_board_is_of_another_version(harness: PostgresHarness, version: int, word: str) -> None:
    with harness.server.connect(harness.database) as connection:
        connection.execute("UPDATE dibs.schema_version SET version = %s", [version])
    refusal = refused(StoreUnusable, opened, harness.server.url(harness.database))
    assert_in_one_line(refusal, word)
    assert refusal.facts["schema"] == version


def test_a_board_of_the_schema_before_is_migrated_with_what_is_on_it(server: LocalServer) -> None:
    server.create_database("older")
    url, folder = server.url("older"), Path(migrating.__file__).parent / "migrations"
    with server.connect("older") as connection:
        connection.execute("CREATE SCHEMA dibs")
        connection.execute("CREATE TABLE dibs.schema_version (version integer NOT NULL)")
        connection.execute("INSERT INTO dibs.schema_version (version) VALUES (5)")
        for number in range(1, 6):
            connection.execute((folder / f"{number:04}.sql").read_bytes())
        connection.execute(
            "INSERT INTO dibs.agents"
            " (name, types, claims_burst, allowed_actions, sensitive_actions, created_at, updated_at)"
            " VALUES ('coder', '{}', 1, '{}', '{}', 1, 1)"
        )
        connection.execute(
            "INSERT INTO dibs.sessions (id, agent, kind, host, meta, started_at, seen_at)"
            " VALUES ('main', 'coder', 'cli', '', '{}', 1, 1)"
        )
    assert_in_one_line(refused(StoreUnusable, opened, url), "schema 5", "dibs migrate")
    assert migrate(url) == (5, migrating.SCHEMA_VERSION)
    with Board(PostgresStore(url, SETTINGS)) as board:
        assert board.find_session("main").parent is None
        assert board.start_session("coder", id="sub", parent="main").parent == "main"
        assert board.end_session("main").session.ended_at is not None
        assert board.sessions() == ()


def test_an_item_from_before_subjects_has_none_and_can_be_given_one(server: LocalServer) -> None:
    server.create_database("before_subjects")
    url, folder = server.url("before_subjects"), Path(migrating.__file__).parent / "migrations"
    with server.connect("before_subjects") as connection:
        connection.execute("CREATE SCHEMA dibs")
        connection.execute("CREATE TABLE dibs.schema_version (version integer NOT NULL)")
        connection.execute("INSERT INTO dibs.schema_version (version) VALUES (8)")
        for number in range(1, 9):
            connection.execute((folder / f"{number:04}.sql").read_bytes())
        connection.execute(
            "INSERT INTO dibs.lanes (project, type, action, approved, touches, priority)"
            " VALUES ('default', 'task', 'task', false, false, 5)"
        )
        connection.execute(
            "INSERT INTO dibs.items (id, project, type, action, title, body, payload, labels, priority, depends_on,"
            " resources, timeout_seconds, retries, needs_approval, approved, status, created_by, created_at,"
            " updated_at, attempts, strikes, failures, token, revision, lane)"
            " VALUES ('old', 'default', 'task', 'task', 'Old', '', '{}', '{}', 5, '{}', '{}', 28800, 0, false, false,"
            " 'ready', 'you', 1, 1, 0, 0, 0, 0, 1, 1)"
        )
    assert migrate(url) == (8, migrating.SCHEMA_VERSION)
    with Board(PostgresStore(url, SETTINGS)) as board:
        assert [item.subject for item in board.list()] == [None]
        assert board.edit("old", subject="gh:1").subject == "gh:1"
        me = board.start_session("coder").id
        assert board.claim_subject("gh:1", session=me).item.id == "old"


@pytest.mark.parametrize(
    ("setting", "word"),
    [("default_transaction_isolation = 'serializable'", "read committed"), ("default_transaction_read_only = on", "")],
)
def test_the_database_is_set_up_so_that_it_cannot_be_used(harness: PostgresHarness, setting: str, word: str) -> None:
    with harness.server.connect() as connection:
        connection.execute(f"ALTER DATABASE {harness.database} SET {setting}".encode())
    with (
        pytest.raises(StoreUnavailable) as raised,
        Board(PostgresStore(harness.server.url(harness.database), SETTINGS)) as board,
    ):
        board.add("x")
    assert_in_one_line(raised.value, word)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_is_refused_and_left_alone(server: LocalServer, encoding: str) -> None:
    name = f"in_{encoding.lower()}"
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0".encode())
    for make in (opened, migrate):
        assert_in_one_line(refused(StoreUnusable, make, server.url(name)), encoding, "encoding", "UTF8")
    with server.connect(name) as connection:
        assert connection.execute("SELECT to_regnamespace('dibs')").fetchone() == (None,)
