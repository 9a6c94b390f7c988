"""A board without findings of doctor can be restored, copied and exported, whichever interface wrote to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dibs.board import Board, connect
from dibs.errors import DibsError
from dibs.maintenance.doctor import examine
from dibs.model import ADMIN, AGENT
from dibs.testing import sizes
from dibs.testing.harness import Harness
from dibs.testing.invariants import IN_TESTS
from tests.kit import postgres
from tests.kit.http import Host
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer
from tests.server.calling import Caller, Served, serving

#: Names that some interface could let in, and texts of any kind.
NAMES = st.sampled_from(
    ["x", "y", "my item", "PROJ-1 ", "", "a\x1b[2J", "a\u202eb", "é", "-x", "../x", "x*129", "i:1/a@b#c+d"]
)
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["", "  ", "é*40000", "A*64000", "A*64001", "a\x1b[2J"]))
SESSIONS = st.one_of(*[st.sampled_from(["s-1", "s-2", "keyed", "gone"])] * 4, NAMES)
ITEMS = st.one_of(*[st.sampled_from(["x", "y", "z"])] * 4, NAMES)
AGENTS = st.one_of(*[st.sampled_from(["coder", "tester"])] * 4, NAMES)
IN_SQL = st.one_of(
    st.tuples(st.just("SELECT dibs.claim_work_item(%s, %s, %s)"), st.tuples(ITEMS, AGENTS, SESSIONS)),
    st.tuples(st.just("SELECT * FROM dibs.claim_next_work_item(%s, %s)"), st.tuples(AGENTS, SESSIONS)),
    st.tuples(st.just("SELECT dibs.release_work_item(%s, %s, %s)"), st.tuples(ITEMS, SESSIONS, TEXTS)),
    st.tuples(
        st.just("SELECT dibs.complete_work_item(%s, %s, %s, %s)"),
        st.tuples(ITEMS, SESSIONS, st.sampled_from(["success", "failure"]), TEXTS),
    ),
    st.tuples(st.just("SELECT dibs.force_release_work_item(%s, %s, %s)"), st.tuples(ITEMS, NAMES, TEXTS)),
)
WORDS = st.fixed_dictionaries({"session": SESSIONS, "reason": TEXTS, "note": TEXTS, "draft": TEXTS})
#: Which of these a verb takes.
TAKES = {
    "claim": ("session",),
    "release": ("session", "reason"),
    "fail": ("session", "reason"),
    "progress": ("session", "note"),
    "wait": ("session",),
    "submit": ("session", "draft"),
    "soft_claim": ("session",),
    "reject": ("session", "reason"),
}
OTHERWISE = st.tuples(st.sampled_from(sorted(TAKES)), ITEMS, WORDS)
#: So that calls meet items that are held, and refusals of every kind.
FIRST: list[tuple[str, Any]] = [
    *(("add", (id, "t")) for id in ("x", "y", "z")),
    ("sql", ("SELECT dibs.claim_work_item(%s, %s, %s)", ("x", "coder", "s-1"))),
    ("sql", ("SELECT dibs.claim_work_item(%s, %s, %s)", ("x", "tester", "s-2"))),
    ("python", ("claim", "y", {"session": "keyed"})),
    ("sql", ("SELECT dibs.release_work_item(%s, %s, %s)", ("x", "nobody", ""))),
]
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("sql"), IN_SQL),
        st.tuples(st.just("http"), OTHERWISE),
        st.tuples(st.just("mcp"), OTHERWISE),
        st.tuples(st.just("python"), OTHERWISE),
        st.tuples(st.just("add"), st.tuples(ITEMS, TEXTS)),
        st.tuples(st.just("start"), st.tuples(AGENTS, SESSIONS)),
    ),
    min_size=3,
    max_size=12,
)
#: What no interface writes, behind the board's back: a column, and the value that it gets.
DAMAGE = st.one_of(
    st.none(),
    st.tuples(
        st.sampled_from(
            [
                ("activity", "item"),
                ("activity", "session"),
                ("activity", "agent"),
                ("activity", "code"),
                ("runs", "reason"),
                ("runs", "outcome"),
                ("sessions", "host"),
                ("sessions", "agent"),
                ("agents", "role"),
                ("events", "actor"),
                ("events", "session"),
                ("tickets", "reason"),
                ("soft_claims", "agent"),
            ]
        ),
        st.one_of(NAMES, st.just("A*1000001")),
    ),
)


@pytest.fixture(scope="module")
def harness(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, tmp_path_factory.mktemp("restorable")) as harness:
        yield harness


@pytest.fixture(scope="module")
def server(http_host: Host, harness: Harness) -> Iterator[Served]:
    with serving(http_host, harness) as server:
        yield server


@settings(
    max_examples=sizes.times(25),
    suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase is not Phase.shrink],
)
@given(calls=CALLS, damage=DAMAGE)
def test_a_board_that_doctor_calls_sound_comes_back(
    server: Served, harness: PostgresHarness, tmp_path_factory: pytest.TempPathFactory, calls: Any, damage: Any
) -> None:
    folder = tmp_path_factory.mktemp("board")
    board = harness.board()
    with psycopg.connect(harness.server.url(harness.database), autocommit=True) as sql:
        empty(sql)
        key, secret = board.create_key(AGENT)
        board.start_session("bot", id="keyed", key=key.id)
        callers = {"admin": server.caller(ADMIN), "bot": Caller(server.url, secret)}
        for number, (interface, call) in enumerate([*FIRST, *calls]):
            write(interface, long(call), board, sql, callers["bot" if number % 2 else "admin"])
        assert wrong(board) == [], "whatever is called, no interface writes what is not sound"
        if damage is not None:
            (table, column), value = damage
            with contextlib.suppress(psycopg.errors.ProgramLimitExceeded):  # an index takes no such text
                sql.execute(f"UPDATE dibs.{table} SET {column} = %s".encode(), [long(value)])  # noqa: S608  # our own
    if not wrong(board):
        comes_back(board, folder)


def write(interface: str, call: Any, board: Board, sql: psycopg.Connection[Any], caller: Caller) -> None:
    """One call, which may be refused."""
    if interface == "sql":
        statement, given = call
        with contextlib.suppress(psycopg.errors.InvalidParameterValue, psycopg.errors.DataError):
            sql.execute(statement.encode(), [_storable(one) for one in given])
        return
    if interface == "add":
        caller.post("/v1/items", {"id": call[0], "title": call[1]})
        return
    if interface == "start":
        caller.post("/v1/sessions", {"agent": call[0], "id": call[1]})
        return
    verb, item, words = call
    given = {name: words[name] for name in TAKES[verb]}
    if interface == "python":
        with contextlib.suppress(DibsError):
            getattr(board, verb)(item, **given)
    elif interface == "http":
        caller.post(f"/v1/items/{quote(item, safe='')}/{verb}", given)
    else:
        body = {"name": verb, "arguments": {"item": item, **given}}
        caller.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body})


def long(given: Any) -> Any:
    """The texts that `A*3` and the like stand for, so that a failure can be printed."""
    if isinstance(given, dict):
        return {name: long(value) for name, value in given.items()}
    if isinstance(given, tuple):
        return tuple(map(long, given))
    text, _, times = given.partition("*")
    return text * int(times) if times.isdecimal() and times.isascii() else given


def _storable(text: str) -> str:
    """What a driver sends at all."""
    return text.replace("\0", "")


def wrong(board: Board) -> list[str]:
    return [one.what for one in examine(board) if not one.late and not one.what.startswith(IN_TESTS)]


def comes_back(board: Board, folder: Path) -> None:
    """It is exported, as lines and back; copied into a file, and from there; and backed up and restored."""
    records = [json.loads(json.dumps(record)) for record in board.export()]
    with connect(str(folder / "copy.db"), create=True, seeded=False) as copy:
        assert copy.load(records) == len(records)
        assert [json.loads(json.dumps(record)) for record in copy.export()] == records
        copy.backup(str(folder / "copy-backup"))
        copy.restore(str(folder / "copy-backup"))
    board.backup(str(folder / "backup"))
    board.restore(str(folder / "backup"))
    # A vault keeps there what a file said about its item that is not on the board.
    assert [what for what in wrong(board) if " in Conflicts: " not in what] == []


def empty(sql: psycopg.Connection[Any]) -> None:
    tables: Callable[[], list[Any]] = sql.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'dibs'::regnamespace AND relkind = 'r'"
        " AND relname NOT IN ('schema_version', 'meta', 'conflicts', 'figures')"
    ).fetchall
    names = ", ".join(f"dibs.{name}" for (name,) in tables())
    sql.execute(f"TRUNCATE {names}".encode())
    sql.execute("UPDATE dibs.meta SET value = 0; DELETE FROM dibs.figures WHERE kind <> 'upto'")
