"""Comparison of a database file's schema with the one that dibs creates.

The file may come from an attacker, and its schema can contain code: a trigger that adds a key whenever an item is
claimed, a view in place of a table, a default that is an expression. Connections run none of it (`database.harden`);
this module finds it, by comparison with a schema that the migrations create in memory.
"""

from __future__ import annotations

import re

import apsw

from dibs.store.sqlite.database import migration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    #: Type (table, trigger, ...), name, and the statement that creates it.
    Object = tuple[str, str, str]

#: Creates the statistics tables, which `PRAGMA optimize` may have added.
STATISTICS = "ANALYZE"
_ALL = "SELECT type, name, coalesce(sql, '') FROM sqlite_schema"
_BETWEEN_WORDS = re.compile(r"--[^\n]*(?:\n|$)|\s+")
_AROUND_SIGNS = re.compile(r" ?([(),]) ?")


def differences(connection: apsw.Connection, version: int, more: Iterable[str] = ()) -> list[str]:
    """Descriptions of foreign and missing objects. `more` are statements that create further allowed objects."""
    migrations = [migration(number) for number in range(1, version + 1)]
    required = _objects_of(migrations)
    allowed = required | _objects_of([*migrations, *more, STATISTICS])
    try:
        found = _objects(connection)
    except UnicodeDecodeError:
        return ["text that is not UTF-8"]
    foreign = sorted(f"the {kind} {name!r}" for kind, name, _ in found - allowed)
    names = {name for _, name, _ in found}
    return foreign + sorted(f"no {kind} {name}" for kind, name, _ in required if name not in names)


def _objects_of(scripts: Iterable[str]) -> set[Object]:
    made = apsw.Connection(":memory:")
    try:
        for script in scripts:
            made.execute(script).fetchall()
        return _objects(made)
    finally:
        made.close()


def _objects(connection: apsw.Connection) -> set[Object]:
    return {(kind, name, _plain(sql)) for kind, name, sql in connection.execute(_ALL)}


def _plain(sql: str) -> str:
    """A statement without comments and line breaks, which versions may change."""
    return _AROUND_SIGNS.sub(r"\1", re.sub(r" +", " ", _BETWEEN_WORDS.sub(" ", sql)).strip())
