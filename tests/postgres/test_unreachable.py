"""A database that cannot be had, or cannot be used: one line that says why, and whether waiting helps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import StoreUnavailable, StoreUnusable
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
        connection.execute("UPDATE dibs.schema_version SET number = %s", [version])
    refusal = refused(StoreUnusable, opened, harness.server.url(harness.database))
    assert_in_one_line(refusal, word)
    assert refusal.facts["schema"] == version


def test_a_board_from_before_version_1_is_refused_and_left_alone(harness: PostgresHarness) -> None:
    url = harness.server.url(harness.database)
    with harness.server.connect(harness.database) as connection:
        connection.execute("ALTER TABLE dibs.schema_version RENAME COLUMN number TO version")
        connection.execute("UPDATE dibs.schema_version SET version = 14")
    for ask in (opened, migrate, lambda url: PostgresStore(url, SETTINGS, create=True)):
        assert_in_one_line(refused(StoreUnusable, ask, url), "before schema 1", "dibs export FILE", "dibs import FILE")
    with harness.server.connect(harness.database) as connection:
        assert connection.execute("SELECT version FROM dibs.schema_version").fetchall() == [(14,)]


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
