"""Connections that only read, for a process in which many threads share a store: a long read holds up no write.

Each goes to one thread at a time. They are opened when they are wanted, and kept.
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


class Readers:
    def __init__(
        self, path: str, settings: Settings, clock: Callable[[], int], connect: Callable[[], apsw.Connection]
    ) -> None:
        self._path, self._settings, self._clock, self._connect = path, settings, clock, connect
        self._places = threading.BoundedSemaphore(READERS_MAX)
        #: Replaced when these lead to the board no more: one that comes back to a list of before is closed.
        self._idle: list[apsw.Connection] = []
        self._closed = False

    def read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Do `work` on one snapshot, without any lock."""
        seconds = self._settings.lock_wait_seconds
        if not self._places.acquire(timeout=seconds):
            text = f"{READERS_MAX} others have been reading the board for over {seconds:g}s"
            raise StoreUnavailable(text, retry_after_seconds=1)
        try:
            if self._closed:
                raise StoreUnavailable(f"the board {self._path} was closed")
            return self._read(work)
        except apsw.Error as error:
            raise explain(error, self._path) from error
        finally:
            self._places.release()

    def close(self) -> None:
        """Those that are in use are closed by who uses them."""
        self._closed = True
        self.open_anew()

    def open_anew(self) -> None:
        """The board is another file now."""
        idle, self._idle = self._idle, []
        while (connection := _taken(idle)) is not None:
            connection.close(True)

    def _read(self, work: Callable[[SqliteTransaction], T]) -> T:
        idle, transaction = self._idle, None
        connection = _taken(idle) or self._opened()
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

    def _opened(self) -> apsw.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON").fetchall()
        return connection


def _taken(idle: list[apsw.Connection]) -> apsw.Connection | None:
    try:
        return idle.pop()
    except IndexError:  # looked at first, it might be another thread's by then
        return None
