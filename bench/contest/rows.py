"""A board in a database, filled and emptied behind its back: a hundred thousand items in a second.

What is copied is an item that was added in the ordinary way, so that nothing here has to know its columns.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

import dibs

PATTERN = "pattern"
AGENT = "bench"
EMPTIED = ("items", "dependencies", "claims", "soft_claims", "tickets", "runs", "events", "sessions", "activity")
SESSIONS = 64


def make_board(url: str) -> None:
    dibs.connect(url, create=True).close()


def refill(url: str, ready: int, ended: int = 0) -> None:
    """Nothing on the board but so many items, and sessions called `bench-0` and so on. The lanes stay, as they do."""
    _empty(url)
    _add_pattern(url)
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.transaction():
            # Without triggers: the pattern is in its lane already.
            connection.execute("SET LOCAL session_replication_role = replica")
            _copy(connection, "an-item-", ready, "status")
            _copy(connection, "ended-", ended, "'done'")
            connection.execute("DELETE FROM dibs.items WHERE id = %s", [PATTERN])
            connection.execute("DELETE FROM dibs.events WHERE item = %s", [PATTERN])
        # Not the empty ones: a table that is known to be empty is scanned from end to end ever after.
        connection.execute("VACUUM (ANALYZE) dibs.items, dibs.events")
        connection.execute("CHECKPOINT")


def ready_left(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM dibs.items WHERE status = 'ready'").fetchone()
        assert row is not None
        return int(row[0])


def only_lane(url: str) -> int:
    """The lane that all items of a refilled board are in."""
    with psycopg.connect(url) as connection:
        ((lane,),) = connection.execute("SELECT DISTINCT lane FROM dibs.items").fetchall()
        return int(lane)


def _empty(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        tables = sql.SQL(", ").join(sql.Identifier("dibs", table) for table in EMPTIED)
        connection.execute(sql.SQL("TRUNCATE {}").format(tables))


def _add_pattern(url: str) -> None:
    with dibs.connect(url) as board:
        board.add("an item", id=PATTERN)
        for number in range(SESSIONS):
            board.start_session(AGENT, id=f"bench-{number}")


def _copy(connection: psycopg.Connection[Any], prefix: str, count: int, status: str) -> None:
    """Items and their first events, their ids in no order, as ids are."""
    ids = "%(prefix)s || substr(md5(n::text), 1, 16)"
    items = _columns(connection, "items", but=("seq", "id", "status"))
    events = _columns(connection, "events", but=("id", "item"))
    for statement in (
        f"INSERT INTO dibs.items (id, status, {items}) SELECT {ids}, {status}, {items}"  # noqa: S608  # our own
        " FROM dibs.items, generate_series(1, %(count)s) AS n WHERE id = %(pattern)s ORDER BY n",
        f"INSERT INTO dibs.events (item, {events}) SELECT {ids}, {events}"  # noqa: S608  # our own
        " FROM dibs.events, generate_series(1, %(count)s) AS n WHERE item = %(pattern)s ORDER BY n",
    ):
        connection.execute(statement.encode(), {"prefix": prefix, "count": count, "pattern": PATTERN})


def _columns(connection: psycopg.Connection[Any], table: str, but: tuple[str, ...]) -> str:
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        [f"dibs.{table}"],
    ).fetchall()
    return ", ".join(f'"{name}"' for (name,) in rows if name not in but)
