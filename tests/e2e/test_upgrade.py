"""A board of this version is upgraded by the next one with everything in it, also after an upgrade that was killed.

The next version is a copy of the sources with one more migration (`tests/kit/next_version.py`), run in processes of its
own. The board has items in every state, a live claim, a queue, a draft, limits, an answer that is kept for a request, a
refused claim and a key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from dibs.board import connect, make
from dibs.errors import ItemAlreadyClaimed, StoreUnusable
from dibs.store.postgres.migrating import SCHEMA_VERSION
from dibs.testing.invariants import IN_TESTS
from dibs.text import wire
from tests.e2e.test_two_versions import Driver, Version
from tests.kit import next_version
from tests.kit.postgres_server import PostgresServer
from tests.kit.waiting import PATIENCE_SECONDS, until

BEFORE, AFTER = SCHEMA_VERSION, next_version.NEXT_SCHEMA
STATUSES = {
    "held": "in_progress",
    "finished": "done",
    "failed": "scheduled",
    "cancelled": "cancelled",
    "rejected": "rejected",
    "drafted": "pending_approval",
    "parked": "parked",
    "waits": "blocked",
    "ready": "ready",
}
#: The last script of an upgrade, and a statement in it that does not end.
ENDLESS = {
    "sqlite": (
        f"migrations/{AFTER:04}.sql",
        "; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    ),
    "postgres": ("functions/7_uuid.sql", f"; SELECT pg_sleep({PATIENCE_SECONDS * 10})"),
}
#: Nothing else locks the file for so long.
LOCKED_MILLISECONDS = 500
SLEEPING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return next_version.made(tmp_path_factory.mktemp("sources"), "sqlite", "postgres")


@pytest.fixture
def later(sources: Path, tmp_path: Path) -> Iterator[Version]:
    with ExitStack() as stack:
        yield Version(sources, tmp_path, stack)


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A board of this version, on which much has happened."""
    if kind == "sqlite":
        path = str(tmp_path / "board.db")
        make(path, folder=str(tmp_path))
        use(path)
        yield path
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"{server.prefix}upgrade_{os.urandom(6).hex()}"
    server.create_database(name)
    make(server.url(name), folder=str(tmp_path))
    use(server.url(name))
    yield server.url(name)
    server.drop_database(name)


def use(store: str) -> None:
    with connect(store, actor="you") as board:
        board.set_agent("mailer", sensitive_actions=["send"])
        for agent, session in (("coder", "coder-1"), ("coder", "coder-2"), ("mailer", "mailer-1")):
            board.start_session(agent, id=session)
        payload = {"a": [1, 2.5, None, "ü"]}
        board.add("Held", id="held", body="text", payload=payload, labels=["web"], priority=8, resources=["src/api"])
        for id in ("finished", "failed", "cancelled", "rejected", "parked", "ready"):
            board.add(id.title(), id=id, retries=1 if id == "failed" else 0, needs_approval=id == "rejected")
        board.add("Drafted", id="drafted", action="send")
        board.add("Waits", id="waits", depends_on=["held"])
        board.add("Long", id="long", body="line\n" * 2000)
        board.cancel("long")
        board.claim("held", session="coder-1")
        board.wait("held", session="coder-2")
        with pytest.raises(ItemAlreadyClaimed):
            board.claim("held", session="mailer-1")
        board.claim("finished", session="coder-2")
        board.release("finished", session="coder-2", reason="not now")
        board.claim("finished", session="coder-1")
        board.done("finished", session="coder-1", links={"pr": "7"}, cost={"tokens": 12}, request_id="r-1")
        board.claim("failed", session="coder-2")
        board.fail("failed", session="coder-2", reason="no luck")
        board.claim("drafted", session="mailer-1")
        board.submit("drafted", session="mailer-1", draft="Dear customer")
        board.cancel("cancelled")
        board.reject("rejected", reason="no")
        board.park("parked")
        board.create_key("agent", agent="coder")


def command(later: Version, store: str, *words: str) -> Any:
    """What a command of the next version answers."""
    process = later.start("-m", "dibs.cli.main", *words, "--store", store, "--json")
    return json.loads(process.communicate(timeout=PATIENCE_SECONDS)[0])


def migrate(later: Version, store: str) -> tuple[int, int]:
    told = command(later, store, "migrate")
    return told["before"], told["after"]


def exported(store: str) -> Any:
    with connect(store) as board:
        return comparable(wire.encode(list(board.export())))


def comparable(records: Any) -> Any:
    """Records without what is new in the next version, also in answers that are kept, as text."""
    kept = [
        [kind, {**data, "answer": json.loads(data["answer"])} if "answer" in data else data] for kind, data in records
    ]
    return next_version.without_news(json.loads(json.dumps(kept)))


def check_sound(driver: Driver) -> None:
    assert [what for what in driver("check") if not what.startswith(IN_TESTS)] == []


def check_work_goes_on(driver: Driver) -> None:
    """The holder of before goes on under its token, and a request of before has its answer."""
    again = driver("done", "finished", session="coder-1", links={"pr": "7"}, cost={"tokens": 12}, request_id="r-1")
    assert (again["item"]["status"], again["run"]["token"]) == ("done", 2)
    assert driver("claim", "held", session="mailer-1")["error"]["code"] == ItemAlreadyClaimed.code
    assert driver("done", "held", session="coder-1", token=1)["item"]["status"] == "done"
    assert driver("get", "waits")["item"]["status"] == "ready", "it waited for that"
    assert driver("approve", "drafted")["status"] == "ready"
    check_sound(driver)


def test_a_board_is_upgraded_with_everything_on_it(kind: str, store: str, later: Version, tmp_path: Path) -> None:
    with connect(store) as board:
        assert {item.id: item.status for item in board.list(limit=100)}.items() >= STATUSES.items()
        board.backup(str(tmp_path / "backup"))
    before = exported(store)
    if kind == "postgres":  # a file is upgraded by whoever opens it
        assert "update it with: dibs migrate" in command(later, store, "list")["error"]["message"]
    assert migrate(later, store) == (BEFORE, AFTER)
    assert migrate(later, store) == (AFTER, AFTER)
    driver = later.driver(store)
    assert comparable(driver("export")) == before
    assert {item["flavour"] for item in driver("list", limit=100)} == {"plain"}
    check_work_goes_on(driver)
    if kind == "postgres":
        assert exported(store), "clients of this version go on"
    else:
        with pytest.raises(StoreUnusable, match="written by a newer dibs"):
            exported(store)
    driver("restore", str(tmp_path / "backup"))
    assert {item["id"]: item["status"] for item in driver("list", limit=100)}["waits"] == "blocked"
    check_sound(driver)


def test_an_upgrade_that_is_killed_leaves_the_board_as_it_was(
    kind: str, store: str, later: Version, sources: Path
) -> None:
    before = exported(store)
    name, endless = ENDLESS[kind]
    script = sources / "dibs" / "store" / kind / name
    whole = script.read_text(encoding="utf-8")
    script.write_text(whole + endless, encoding="utf-8")
    try:
        process = later.start("-m", "dibs.cli.main", "migrate", "--store", store)
        until(lambda: goes_on(kind, store))
        process.kill()
        process.wait(PATIENCE_SECONDS)
        if kind == "postgres":
            end_its_transaction(store)
    finally:
        script.write_text(whole, encoding="utf-8")
    assert exported(store) == before
    assert migrate(later, store) == (BEFORE, AFTER)
    driver = later.driver(store)
    assert comparable(driver("export")) == before
    check_work_goes_on(driver)


def goes_on(kind: str, store: str) -> bool:
    """Whether the migration has come to the statement that does not end."""
    if kind == "postgres":
        with psycopg.connect(store, autocommit=True) as connected:
            return bool(connected.execute(SLEEPING).fetchall())
    connection = apsw.Connection(store)
    connection.set_busy_timeout(LOCKED_MILLISECONDS)
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return True
    finally:
        connection.close()
    return False


def end_its_transaction(store: str) -> None:
    """The server does so once it notices that the client has gone, which a sleeping backend does not."""
    with psycopg.connect(store, autocommit=True) as connection:
        for (pid,) in connection.execute(SLEEPING).fetchall():
            connection.execute("SELECT pg_terminate_backend(%s, %s)", (pid, PATIENCE_SECONDS * 1000))
