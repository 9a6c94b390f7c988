"""The command line on a PostgreSQL board: made, worked on, copied there and back, and moved as the guide says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from psycopg import sql

from dibs.board import connect
from dibs.testing.invariants import IN_TESTS, assert_sound
from tests.docs.markdown import blocks, read
from tests.e2e.conftest import Dibs, exported
from tests.e2e.test_copying import DIE_ON_THE_WAY
from tests.kit.postgres_server import LocalServer, PostgresServer

#: What the guide calls the database.
CALLED = "postgresql://dibs@db.example.org/work"


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a database with nothing in it."""
    name = f"{postgres_server.prefix}cli_{os.urandom(6).hex()}"
    postgres_server.create_database(name)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def remote(bare: Dibs, database: str) -> Dibs:
    """With a board in a database, as session s1 of coder."""
    bare.ok("init", "--store", database)
    own = {"DIBS_STORE": database, "DIBS_SESSION": "s1", "DIBS_AGENT": "coder"}
    return Dibs(bare.folder, bare.environment | own)


def is_sound(dibs: Dibs, *words: str) -> bool:
    """Whether doctor finds nothing, apart from what the servers of the tests are meant to have."""
    found = json.loads(dibs("doctor", "--json", *words).stdout)["findings"]
    return all(one["what"].startswith(IN_TESTS) for one in found)


def test_doctor_finds_a_server_that_does_not_sync_and_says_what_turns_it_on(
    remote: Dibs, postgres_server: PostgresServer, database: str
) -> None:
    name = database.rpartition("/")[2]
    with postgres_server.connect() as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(name)))
    answer = json.loads(remote("doctor", "--json").stdout)
    found = {one["what"].split()[0]: one["advice"] for one in answer["findings"]}
    assert "synchronous_commit" in found
    assert not any("restore" in advice for advice in found.values()), "that would discard what was done since"
    assert "SET synchronous_commit = on" in found["synchronous_commit"]
    with postgres_server.connect() as connection:
        is_off = connection.execute("SHOW fsync").fetchone() == ("off",)
    assert ("fsync" in found) == is_off
    assert not is_off or "postgresql.conf" in found["fsync"]


def test_init_makes_a_board_of_an_empty_database_once(bare: Dibs, database: str) -> None:
    assert bare.json("init", "--store", database)["created"] is True
    again = bare.json("init", environment={"DIBS_STORE": database})
    assert again["created"] is False
    assert "exists already" in bare.ok("init", "--store", database)
    assert bare.json("list", "--store", database) == {"items": []}
    assert not list(bare.folder.iterdir())


def test_a_database_without_a_board_says_what_to_type(bare: Dibs, database: str) -> None:
    for words in (("list",), ("add", "t"), ("doctor",), ("claim", "x", "--session", "s", "--agent", "a")):
        code, error = bare.refused(*words, "--store", database)
        assert (code, error["code"]) == (1, "STORE_UNAVAILABLE")
        assert "dibs init" in error["message"]
        assert bare(*words, "--store", database).stderr.count("\n") == 1


def test_migrate_says_from_which_version_to_which(bare: Dibs, database: str) -> None:
    first = bare.json("migrate", "--store", database)
    assert first["before"] == 0 < first["after"]
    second = bare.json("migrate", "--store", database)
    assert (second["before"], second["after"]) == (first["after"], first["after"])
    assert "nothing to migrate" in bare.ok("migrate", "--store", database)
    assert bare.json("init", "--store", database)["created"] is False


def test_agents_share_it(remote: Dibs) -> None:
    other = Dibs(remote.folder, remote.environment | {"DIBS_SESSION": "s2", "DIBS_AGENT": "reviewer"})
    remote.ok("add", "Fix login", "--id", "fix-login", "--type", "bug")
    remote.ok("add", "Tell users", "--id", "tell", "--needs", "fix-login")
    assert remote.json("claim", "fix-login")["claim"]["token"] == 1
    code, error = other.refused("claim", "fix-login")
    assert (code, error["code"], error["holder"]["agent"]) == (4, "TASK_ALREADY_CLAIMED", "coder")
    assert other("next").returncode == 3
    remote.ok("heartbeat")
    remote.ok("progress", "fix-login", "half of it")
    remote.ok("done", "fix-login", "--note", "the cookie")
    assert other.json("next")["claims"][0]["item"]["id"] == "tell"
    assert "Tell users" in other.ok("who")
    assert "the cookie" in other.ok("log", "fix-login")
    assert is_sound(remote)


def test_a_board_goes_there_and_back_without_loss(worked: Dibs, database: str) -> None:
    text = exported(worked)
    copied = worked.json("copy", ".", database)["copied"]
    assert worked.json("copy", database, "back.db")["copied"] == copied
    assert exported(worked, "back.db") == text
    assert sorted(exported(worked, database).splitlines()) == sorted(text.splitlines())
    for store in (str(worked.folder / ".dibs" / "board.db"), database, str(worked.folder / "back.db")):
        assert is_sound(worked, "--store", store)
        with connect(store, folder=str(worked.folder)) as board:
            assert_sound(board, store)
    for words in (("list", "--all"), ("show", "b"), ("log", "a"), ("agent", "list"), ("sessions",)):
        assert worked.json(*words, "--store", database) == worked.json(*words)
    # Whoever held something goes on with it there, and the rest goes on from where it was.
    assert worked.json("done", "b", "--token", "1", "--store", database)["run"]["token"] == 1
    assert worked.json("claim", "a", "--request-id", "r1", "--store", database)["claim"]["token"] == 1
    new = worked.json("add", "t", "--store", database)["item"]["id"]
    ids = [event["id"] for event in worked.json("events", "--store", database)["events"]]
    assert ids == sorted(ids)
    assert worked.json("show", new, "--store", database)["item"]["status"] == "ready"
    assert is_sound(worked, "--store", database)


def test_floors_and_counters_go_with_it(dibs: Dibs, database: str) -> None:
    for id in ("x", "y"):
        dibs.ok("add", "t", "--id", id)
    dibs.ok("claim", "x")
    dibs.ok("done", "x")
    pruned = dibs.json("prune", "--older-than", "0s", "--yes")
    dibs.ok("copy", ".", database)
    assert dibs.json("add", "t", "--id", "x", "--store", database)["item"]["token"] == pruned["token_floor"]
    latest = dibs.json("events", "--limit", "1", "--store", database)["events"][0]["id"]
    assert latest > pruned["event_floor"]
    assert dibs.refused("events", "--after", "0", "--store", database)[1]["event_floor"] == pruned["event_floor"]


def test_a_copy_wants_an_empty_board_there_too(worked: Dibs, database: str) -> None:
    worked.ok("init", "--store", database)
    worked.ok("add", "t", "--id", "mine", "--store", database)
    before, there = exported(worked), exported(worked, database)
    for source in (".", "sqlite:.dibs/board.db"):
        code, error = worked.refused("copy", source, database)
        assert (code, error["code"], error["field"]) == (1, "INVALID", "to")
    assert (exported(worked), exported(worked, database)) == (before, there)


def test_a_database_is_not_copied_to_itself(worked: Dibs, database: str) -> None:
    worked.ok("copy", ".", database)
    there = exported(worked, database)
    code, error = worked.refused("copy", database, database)
    assert (code, error["code"], error["field"]) == (1, "INVALID", "to")
    assert exported(worked, database) == there


def test_a_copy_that_is_killed_leaves_the_database_empty(worked: Dibs, database: str) -> None:
    command = [sys.executable, "-c", DIE_ON_THE_WAY, "12", "copy", ".", database]
    killed = subprocess.run(command, cwd=worked.folder, env=worked.environment, capture_output=True, check=False)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"")
    assert [json.loads(line)["record"] for line in exported(worked, database).splitlines()] == ["board"]
    worked.ok("copy", ".", database)
    assert sorted(exported(worked, database).splitlines()) == sorted(exported(worked).splitlines())


def test_the_guide_works_as_it_stands(worked: Dibs) -> None:
    text = exported(worked)
    typed = "\n".join(blocks(read("docs/guides/postgresql.md"), "sh"))
    assert CALLED in typed
    with LocalServer(durable=True) as server:
        server.create_database("work")
        done = worked.shell(f"set -e\n{typed.replace(CALLED, server.url('work'))}")
    assert (done.returncode, done.stderr) == (0, "")
    assert exported(worked, "back.db") == text
