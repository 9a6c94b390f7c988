"""Whether the database answers and accepts writes, for a server that watches its store."""

from __future__ import annotations

import threading

import psycopg

from dibs.store.postgres.connections import accepts_no_writes, connect, explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.store.postgres.connections import Connection

ASK = "SELECT pg_catalog.current_setting('transaction_read_only') FROM dibs.meta LIMIT 1"


class Pinging:
    """On a connection of its own: those of the pool may all be in use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        #: What the last answer said, if there was one.
        self.is_read_only = False

    def ping(self) -> None:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = connect(self._url, prepares=False)
                row = self._connection.execute(ASK, prepare=False).fetchone()
            except psycopg.Error as error:
                self._drop()
                raise explain(error) from error
            if row is not None and row[0] == "on":
                self._drop()  # the next connection may lead to another server
                self.is_read_only = True
                raise accepts_no_writes()
            self.is_read_only = False

    def close(self) -> None:
        """Does not wait for a question that is under way: it may never be answered."""
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
