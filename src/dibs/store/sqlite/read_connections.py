"""Read-only connections for a process in which many threads share a store, so that a long read delays no write.

A connection serves one thread at a time and is kept. Another is opened if all are in use.
"""

from __future__ import annotations

import threading

import apsw

from dibs.errors import StoreUnavailable
from dibs.store.sqlite.database import explain
from dibs.store.sqlite.transaction import SqliteTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from dibs.config import Settings

    T = TypeVar("T")

READERS_MAX = 16


class ReadConnections:
    def __init__(
        self, path: str, settings: Settings, clock: Callable[[], int], connect: Callable[[], apsw.Connection]
    ) -> None:
        self._path, self._settings, self._clock, self._connect = path, settings, clock, connect
        self._slots = threading.BoundedSemaphore(READERS_MAX)
        #: `reconnect` replaces the list; a connection that is returned to a former list is closed.
        self._idle: list[apsw.Connection] = []
        self._closed = False

    def read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Run `work` on one snapshot, without the fair lock."""
        seconds = self._settings.lock_wait_seconds
        if not self._slots.acquire(timeout=seconds):
            text = f"{READERS_MAX} other threads have been reading the board for over {seconds:g}s; try again"
            raise StoreUnavailable(text, retry_after_seconds=1)
        try:
            if self._closed:
                raise StoreUnavailable(f"the board {self._path} was closed")
            return self._read(work)
        except apsw.Error as error:
            raise explain(error, self._path) from error
        finally:
            self._slots.release()

    def close(self) -> None:
        """Close the idle connections; one in use is closed by its thread."""
        self._closed = True
        self.reconnect()

    def reconnect(self) -> None:
        """Close all connections, because the path leads to another file now."""
        idle, self._idle = self._idle, []
        while (connection := _pop(idle)) is not None:
            connection.close(True)

    def _read(self, work: Callable[[SqliteTransaction], T]) -> T:
        idle, transaction = self._idle, None
        connection = _pop(idle) or self._open()
        try:
            connection.execute("BEGIN")
            transaction = SqliteTransaction(connection.cursor(), self._clock(), self._settings)
            return work(transaction)
        finally:
            if transaction is not None:
                transaction.close()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if self._closed or idle is not self._idle:
                connection.close(True)
            else:
                idle.append(connection)

    def _open(self) -> apsw.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON").fetchall()
        return connection


def _pop(idle: list[apsw.Connection]) -> apsw.Connection | None:
    try:
        return idle.pop()
    except IndexError:  # a check before it could be outdated by another thread
        return None
