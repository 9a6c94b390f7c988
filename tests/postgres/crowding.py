"""Boards of a size: one item of each kind, brought there by the verbs, and as many copies of its rows as wanted.

Copies are made past the verbs and past the triggers, a million in seconds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql

from dibs.errors import ItemAlreadyClaimed
from dibs.model import NewItem, Request, Session
from dibs.store.postgres.store import PostgresStore
from dibs.testing import sizes

Connection = psycopg.Connection[tuple[Any, ...]]

LANES = ("code", "docs", "touching")


class Size(NamedTuple):
    """How many copies of each kind there are; `sessions` share what is held."""

    ready: int
    ended: int
    held: int
    waiting: int
    sessions: int
    requests: int
    tickets: int


SMALL = Size(ready=20, ended=90, held=20, waiting=5, sessions=5, requests=100, tickets=100)
MILLION = Size(ready=33_000, ended=890_000, held=10_000, waiting=300, sessions=1_000, requests=100_000, tickets=100_000)
#: For every commit: a tenth of that is planned for like that.
LARGE = MILLION if sizes.FACTOR > 1 else Size(3_300, 89_000, 1_000, 300, 100, 10_000, 10_000)


def crowd(store: PostgresStore, connection: Connection, size: Size) -> None:
    """Fill an empty board. Every table that can be large is as large as the size says."""
    make_patterns(store)
    connection.execute("SET session_replication_role = replica")
    a_held_one, some_session = named("held", f"n % {size.held}"), named("session", f"n % {size.sessions}")
    copy(connection, "sessions", "id = 'pattern'", size.sessions, id=named("session"))
    for kind, count in kinds(size).items():
        copy(connection, "items", f"id = '{kind}'", count, id=named(kind))
        copy(connection, "events", f"item = '{kind}' AND number = 1", count, item=named(kind))
        copy(connection, "runs", f"item = '{kind}'", count, item=named(kind), session=one_of(size.sessions, count))
    copy(connection, "claims", "item = 'held'", size.held, item=named("held"), session=one_of(size.sessions, size.held))
    copy(connection, "dependencies", "item = 'blocked'", size.waiting, item=named("blocked"), needs=a_held_one)
    needed = named("ended", "n / 2")
    copy(connection, "dependencies", "item = 'blocked'", size.requests, item=named("ended"), needs=needed)
    copy(connection, "requests", "id = 'pattern'", size.requests, id=named("request"))
    copy(connection, "tickets", "item = 'left'", size.tickets, item=a_held_one, session=some_session)
    copy(connection, "tickets", "item = 'held'", size.waiting, item=a_held_one, session=some_session)
    copy(connection, "soft_claims", "item = 'held'", size.held, item=named("held"), session=some_session)
    copy(connection, "activity", "item = 'held'", size.held, item=named("held"), session=some_session)
    connection.execute("RESET session_replication_role")


def kinds(size: Size) -> dict[str, int]:
    waiting = dict.fromkeys(("blocked", "scheduled", "parked", "pending"), size.waiting)
    return dict.fromkeys(LANES, size.ready) | {"ended": size.ended, "held": size.held} | waiting


def make_patterns(store: PostgresStore) -> None:
    """An item of each kind, under its kind's name, and what goes with it."""
    store.start_session(Session(id="pattern", agent="pattern"))
    store.start_session(Session(id="waiter", agent="pattern"))
    store.add([NewItem(id=lane, title="ready", type=lane, resources=touched(lane)) for lane in LANES], actor="tester")
    others = [
        NewItem(id="ended", title="ended"),
        NewItem(id="held", title="held"),
        NewItem(id="left", title="left"),
        NewItem(id="blocked", title="blocked", depends_on=("held",)),
        NewItem(id="scheduled", title="scheduled", not_before=2**50),
        NewItem(id="parked", title="parked"),
        NewItem(id="pending", title="pending", needs_approval=True),
    ]
    store.add(others, actor="tester", request=Request(actor="tester", id="pattern", fingerprint=""))
    for item in ("ended", "held", "parked"):
        store.claim(item, session="pattern")
    for item in ("held", "left"):
        store.wait(item, session="waiter")
    store.leave("left", session="waiter")
    store.soft_claim("held", session="waiter")
    with pytest.raises(ItemAlreadyClaimed):
        store.claim("held", session="waiter")
    store.done("ended", session="pattern", links={}, cost={})
    store.release("parked", session="pattern", park=True)


def touched(lane: str) -> tuple[str, ...]:
    return ("src/main.py",) if lane == "touching" else ()


def named(kind: str, number: str = "n") -> str:
    """The name of a copy. In the order of numbers, so that an index grows at its end."""
    return f"'{kind}-' || lpad(({number})::text, 7, '0')"


def one_of(sessions: int, count: int) -> str:
    """The session of one of so many copies: each has its share, one after the other."""
    return named("session", f"n * {sessions} / {count}")


def copy(connection: Connection, table: str, pattern: str, count: int, **changed: str) -> None:
    """Copies of the row that fits the pattern, with these columns changed: expressions of `n`, the copy's number."""
    columns = _columns(connection, table) - changed.keys()
    connection.execute(
        sql.SQL("INSERT INTO dibs.{} ({}) SELECT {} FROM dibs.{} x, generate_series(0, {}) AS n WHERE {}").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, (*columns, *changed))),
            sql.SQL(", ").join((*map(sql.Identifier, columns), *map(sql.SQL, changed.values()))),
            sql.Identifier(table),
            count - 1,
            sql.SQL(pattern),
        )
    )


def _columns(connection: Connection, table: str) -> set[str]:
    """Those that are not numbered by the database."""
    named = connection.execute(
        "SELECT attname FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND attidentity = '' AND NOT attisdropped",
        [f"dibs.{table}"],
    )
    return {name for (name,) in named}
