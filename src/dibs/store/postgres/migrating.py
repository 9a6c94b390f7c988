"""The schema: numbered migrations, each run once, and the functions, replaced each time.

Only `dibs migrate`, and `dibs init` on a database without a board, change the schema, under a lock. Schema N serves
clients N and N-1: a migration only adds.
"""

from __future__ import annotations

import glob
import os

import psycopg

from dibs.errors import StoreUnavailable, StoreUnusable
from dibs.model import Item
from dibs.store.contract import BEFORE_SCHEMA_1
from dibs.store.postgres.connections import connect, explain, refuse_other_encodings

SCHEMA_VERSION = 1
_HERE = os.path.dirname(__file__)
_LOCK = 25697
#: How long a migration waits for another one, and for a table.
MIGRATION_WAIT_SECONDS, TABLE_WAIT_SECONDS = 60, 10


def migrate(url: str) -> tuple[int, int]:
    """Migrate to this version; return the versions before and after."""
    try:
        with connect(url) as connection, connection.transaction():
            refuse_other_encodings(connection)
            connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
            _take_lock(connection)
            before = version(connection)
            if before > SCHEMA_VERSION:
                raise too_new(before)
            for number in range(before + 1, SCHEMA_VERSION + 1):
                _run(connection, os.path.join(_HERE, "migrations", f"{number:04}.sql"))
                connection.execute("UPDATE dibs.schema_version SET number = %s", (number,))
            for path in sorted(glob.glob(os.path.join(_HERE, "functions", "*.sql"))):
                _run(connection, path)
            return before, SCHEMA_VERSION
    except psycopg.errors.LockNotAvailable as error:
        text = "the migration waited too long for a table that another transaction uses, and changed nothing"
        raise StoreUnavailable(f"{text}: end that transaction (see pg_stat_activity), and try again") from error
    except psycopg.Error as error:
        raise explain(error) from error


def _take_lock(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Wait for another migration. After that, wait for a table for as long as clients wait for the migration. A limit
    of the URL or of the role counts instead."""
    is_limited = connection.execute("SELECT pg_catalog.current_setting('lock_timeout')").fetchone() != ("0",)
    if not is_limited:
        connection.execute(f"SET LOCAL lock_timeout = '{MIGRATION_WAIT_SECONDS}s'")
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_LOCK,))
    except psycopg.errors.LockNotAvailable as error:
        raise StoreUnavailable(
            f"another migration of this database goes on, or something else holds its lock ({_holder(connection)});"
            " try again when it has ended"
        ) from error
    if not is_limited:
        connection.execute(f"SET LOCAL lock_timeout = '{TABLE_WAIT_SECONDS}s'")


def _holder(connection: psycopg.Connection[tuple[object, ...]]) -> str:
    found = connection.execute(
        "SELECT l.pid, a.usename FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid"
        " WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %s AND l.objid = 0 AND l.objsubid = 2"
        " AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())",
        (_LOCK,),
    ).fetchall()
    return ", ".join(f"process {pid} of role {role}" for pid, role in found) or "it has just ended"


def version(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    """The version of the schema; 0 without a board. A schema from before version 1 is refused."""
    column = connection.execute(
        "SELECT attname FROM pg_catalog.pg_attribute"
        " WHERE attrelid = pg_catalog.to_regclass('dibs.schema_version') AND attnum = 1"
    ).fetchone()
    if column is None:
        return 0
    # Before version 1, the column was called `version`.
    if column[0] != "number":
        raise StoreUnusable(f"the board {BEFORE_SCHEMA_1}")
    row = connection.execute("SELECT number FROM dibs.schema_version").fetchone()
    return 0 if row is None else int(str(row[0]))


def require_version(found: int) -> None:
    """A client works with its own version of the schema and with the next one."""
    if found == 0:
        raise StoreUnusable("the database has no board yet; create one with: dibs init", schema=0)
    if found < SCHEMA_VERSION:
        raise StoreUnusable(
            f"the board has schema {found}, and this dibs needs {SCHEMA_VERSION}; update it with: dibs migrate",
            schema=found,
        )
    if found > SCHEMA_VERSION + 1:
        raise too_new(found)


def too_new(found: int) -> StoreUnusable:
    return StoreUnusable(f"the board has schema {found}, which is too new for this dibs; upgrade dibs", schema=found)


def _run(connection: psycopg.Connection[tuple[object, ...]], path: str) -> None:
    # `next` answers with the fields of an item as a list, in their order.
    fields = ", ".join(f"t.{name}" for name in Item._fields).encode()
    with open(path, "rb") as file:
        connection.execute(file.read().replace(b"@fields_of_t", fields))
