"""Whether the schema of a database file is the one that dibs makes.

A file may have come from anywhere, and its schema can hold code: a trigger that adds a key whenever an item is claimed,
a view in the place of a table, a default that is an expression. Connections run none of that (`connection.harden`);
here it is found and named. What is right is what the migrations make, so that is made, in memory, and compared.
"""

from __future__ import annotations

import re

import apsw

from dibs.store.sqlite.database import migration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    #: What an object is (a table, a trigger), its name, and the statement that makes it.
    Object = tuple[str, str, str]

#: What `ANALYZE` and `PRAGMA optimize` leave.
STATISTICS = "ANALYZE"
_ALL = "SELECT type, name, coalesce(sql, '') FROM sqlite_schema"
_BETWEEN_WORDS = re.compile(r"--[^\n]*\n|\s+")
_AROUND_SIGNS = re.compile(r" ?([(),]) ?")


def differences(connection: apsw.Connection, version: int, more: Iterable[str] = ()) -> list[str]:
    """What stands in the schema and is not of dibs, and what is missing in it, in words. `more` are statements that
    make what may stand there as well."""
    right = _objects_of([migration(number) for number in range(1, version + 1)])
    allowed = right | _objects_of([migration(number) for number in range(1, version + 1)] + [*more, STATISTICS])
    found = _objects(connection)
    foreign = sorted(f"the {kind} {name!r}" for kind, name, _ in found - allowed)
    there = {name for _, name, _ in found}
    return foreign + sorted(f"no {kind} {name}" for kind, name, _ in right if name not in there)


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
    """A statement without its comments and line breaks, which may change from version to version."""
    return _AROUND_SIGNS.sub(r"\1", _BETWEEN_WORDS.sub(" ", sql))
