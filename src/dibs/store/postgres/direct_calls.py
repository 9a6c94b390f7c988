"""Calls of SQL functions through libpq itself, for the threads of a server: what psycopg's cursor does for such a call
takes longer than everything else that the client does for it.

libpq waits without looking at signals. So the main thread, which a user may interrupt, calls through a cursor.
"""

from __future__ import annotations

import threading
from itertools import count
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors, pq

from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.store.postgres.connections import Connection

#: By connection, the names of the statements that it has prepared.
_prepared: WeakKeyDictionary[Connection, dict[str, bytes]] = WeakKeyDictionary()
#: Of names: one that was deallocated is not used again, because another statement may have it by then.
_numbers = count()


def call(connection: Connection, function: str, given: Sequence[str | None]) -> dict[str, Any]:
    """The answer of an SQL function, which is JSON."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main or not _prepares(connection) or not all(map(_is_plain, given)):
        row = connection.execute(function, given).fetchone()
        assert row is not None
        answer: dict[str, Any] = row[0]
        return answer
    values: Any = [None if one is None else one.encode() for one in given]
    try:
        result = _checked(connection.pgconn.exec_prepared(_name(connection, function), values))
    except errors.InvalidSqlStatementName:
        # Nothing was executed. After a ROLLBACK psycopg deallocates all statements, of which it knows only its own.
        del _prepared[connection][function]
        result = _checked(connection.pgconn.exec_prepared(_name(connection, function), values))
    value = result.get_value(0, 0)
    assert value is not None
    loaded: dict[str, Any] = json_text.loads(value.decode())
    return loaded


def _prepares(connection: Connection) -> bool:
    """Not behind a pooler. With another encoding a cursor has to translate."""
    return connection in _prepared or (connection.prepare_threshold is not None and connection.info.encoding == "utf-8")


def _name(connection: Connection, function: str) -> bytes:
    prepared = _prepared.setdefault(connection, {})
    if function not in prepared:
        prepared[function] = _prepare(connection, function, f"dibs_{next(_numbers)}".encode())
    return prepared[function]


def _prepare(connection: Connection, function: str, name: bytes) -> bytes:
    text, *others = function.split("%s")
    numbered = text + "".join(f"${number}{rest}" for number, rest in enumerate(others, 1))
    _checked(connection.pgconn.prepare(name, numbered.encode()))
    return name


def _checked(result: pq.abc.PGresult) -> pq.abc.PGresult:
    if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        return result
    if not result.error_field(pq.DiagnosticField.SQLSTATE):
        # As psycopg reports a lost connection.
        raise psycopg.OperationalError(result.get_error_message())
    raise errors.error_from_result(result)


def _is_plain(text: str | None) -> bool:
    """Not so: NUL, which would end the text for libpq, and which a cursor refuses."""
    return text is None or "\0" not in text
