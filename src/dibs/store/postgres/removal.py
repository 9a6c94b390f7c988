"""Removes a board from a database: its schemas, and nothing outside of them."""

from __future__ import annotations

import psycopg
from psycopg import sql

from dibs.errors import Invalid, StoreUnusable
from dibs.store.postgres.connections import connect, explain
from dibs.store.postgres.migrating import version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: The schemas of a board, in the order in which they can be dropped: the second builds on the first.
SCHEMAS = ("dibs_uuid", "dibs")
#: Views and foreign keys of other schemas, which a removal would drop too.
DEPENDENTS = """
    SELECT DISTINCT n.nspname || '.' || c.relname
    FROM pg_depend d
    JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
    JOIN pg_class c ON c.oid = r.ev_class
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_class t ON d.refclassid = 'pg_class'::regclass AND t.oid = d.refobjid
    WHERE t.relnamespace = ANY (%(ours)s::regnamespace[]) AND c.relnamespace <> ALL (%(ours)s::regnamespace[])
    UNION
    SELECT DISTINCT n.nspname || '.' || c.relname
    FROM pg_constraint f
    JOIN pg_class c ON c.oid = f.conrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_class t ON t.oid = f.confrelid
    WHERE f.contype = 'f'
        AND t.relnamespace = ANY (%(ours)s::regnamespace[]) AND c.relnamespace <> ALL (%(ours)s::regnamespace[])
    ORDER BY 1
"""


def remove(url: str, check: Callable[[], None]) -> list[str]:
    """Drop the schemas of the board, unless `check` refuses it. No claim is made meanwhile."""
    try:
        with connect(url) as connection, connection.transaction():
            connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
            if version(connection) == 0:
                raise Invalid("the database has no board", field="store")
            connection.execute("LOCK TABLE dibs.claims IN SHARE MODE")
            check()
            there = connection.execute(
                "SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s::name[])", (list(SCHEMAS),)
            ).fetchall()
            ours = [schema for schema in SCHEMAS if (schema,) in there]
            outside = [str(row[0]) for row in connection.execute(DEPENDENTS, {"ours": ours}).fetchall()]
            if outside:
                raise StoreUnusable(f"{', '.join(outside)} would be dropped with the board; drop them first")
            for schema in ours:
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
            return [f"schema {schema}" for schema in ours]
    except psycopg.Error as error:
        raise explain(error) from error
