"""Connections: how one is made, what kind of server it leads to, how they are kept, and what their errors mean.

A connection goes to one thread at a time and comes back clean; one whose user was interrupted is closed, since nobody
knows how far it had come. One that the server has closed meanwhile is noticed before it is used: a closed socket is
readable, which costs a system call to see and no round trip. After a fork the child starts with none, and leaves its
parent's alone.
"""

from __future__ import annotations

import contextlib
import operator
import os
import queue
import select
import threading
import time
import weakref
from functools import partial

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict

from dibs.errors import DibsError, StoreUnavailable, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    T = TypeVar("T")
    Connection = psycopg.Connection[tuple[Any, ...]]

#: Errors after which the work has certainly not been done, and may well succeed when it is done again.
AGAIN = (pg.DeadlockDetected, pg.SerializationFailure)
#: The server is not, or no longer, one that can be written to; another may be.
ELSEWHERE = (
    pg.ReadOnlySqlTransaction,
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.TooManyConnections,
    pg.IdleInTransactionSessionTimeout,
)
#: What a server says of a connection that it will not take tomorrow either; libpq gives no code for these, only words.
REFUSED = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "permission denied",
    "not permitted to log in",
    "could not translate host name",
    "invalid connection option",
    "certificate",
)
#: What a system says of an address at which nobody listens.
NOBODY_THERE = ("Connection refused", "No such file or directory")
ENCODING = "UTF8"
CONNECTIONS_MAX = 32
CONNECT_SECONDS = 5
RETRY_SECONDS = 1.0


def connect(url: str, *, prepares: bool = True) -> Connection:
    """A new connection: to the server that can be written to, where the URL names several."""
    given = conninfo_to_dict(url)
    defaults: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "application_name": "dibs"}
    # A peer that vanished without a word is noticed within seconds, not hours.
    defaults |= {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
    if "," in str(given.get("host", "")):
        defaults["target_session_attrs"] = "read-write"
    chosen = {name: value for name, value in defaults.items() if name not in given}
    return psycopg.connect(url, autocommit=True, prepare_threshold=5 if prepares else None, **chosen)


def refuse_other_encodings(connection: Connection) -> None:
    # Not every pooler passes it on.
    encoding = connection.info.parameter_status("server_encoding") or ENCODING
    if encoding != ENCODING:
        raise StoreUnusable(
            f"the encoding of this database is {encoding}, and dibs needs {ENCODING}; make another database with:"
            f" CREATE DATABASE ... ENCODING '{ENCODING}' TEMPLATE template0"
        )


class Pool:
    """Connections at rest, the latest used first, so that a quiet board keeps only a few."""

    def __init__(self, url: str, wait_seconds: float) -> None:
        self.url = url
        self.behind_pooler: bool | None = None
        self._wait_seconds = wait_seconds
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        self._closed = False
        self._places = _places()
        #: Held by who uses a connection at rest for a moment: whoever finds none waits that moment, and opens no other.
        self._moment = threading.Lock()
        _pools.add(self)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do one piece of work with a connection."""
        loan = _Loan()
        try:
            with self._lent(loan) as connection:
                return work(connection)
        except BaseException:
            # Once more, since an interrupt may have cut off the end of the loan.
            self._take_back(loan)
            raise

    def connection(self) -> contextlib.AbstractContextManager[Connection]:
        """A connection for one piece of work; one that did not come out of it clean is not used again."""
        return self._lent(_Loan())

    @contextlib.contextmanager
    def _lent(self, loan: _Loan) -> Iterator[Connection]:
        if self._closed:
            raise StoreUnavailable("the board was closed")
        try:
            self._take_place(loan)
            connection = self._take()
            loan.connections.append(connection)
            yield connection
            loan.is_clean = True
        except (psycopg.Error, DibsError) as error:
            loan.is_clean = not isinstance(error, ELSEWHERE)
            raise
        finally:
            self._take_back(loan)

    def _take_place(self, loan: _Loan) -> None:
        """One of as many places as there may be connections. That it was taken is recorded by the same call that takes
        it: no bytecode, and so no signal handler, is run between the two."""
        try:
            loan.place.extend(map(self._places.get, (True,), (self._wait_seconds,)))
        except queue.Empty:
            raise StoreUnavailable(
                f"all {CONNECTIONS_MAX} connections have been in use for over {self._wait_seconds:g}s",
                retry_after_seconds=RETRY_SECONDS,
            ) from None

    def _take_back(self, loan: _Loan) -> None:
        """End a loan. It may be ended twice: what was given back is off its record."""
        for connection in loan.connections:
            if loan.is_clean and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                self._put(connection, loan)
            else:
                connection.close()
        for place in loan.place:
            _uninterrupted(partial(self._places.put, place), loan.place.clear)

    @contextlib.contextmanager
    def idle_connection(self) -> Iterator[Connection | None]:
        """A connection that nobody uses, for a moment; None if there is none."""
        with self._moment:
            connection = self._resting()
            try:
                yield connection
            finally:
                if connection is not None:
                    self._put(connection, _Loan())

    def close(self) -> None:
        self._closed = True
        for connection in self._drained():
            connection.close()

    def forget(self) -> None:
        """Close nothing, keep nothing: what there is belongs to the parent process."""
        _inherited.extend(self._drained())
        self._places = _places()
        self._moment = threading.Lock()
        self._pid = os.getpid()

    def _drained(self) -> list[Connection]:
        found, self._idle = self._idle, []
        return found

    def _take(self) -> Connection:
        found = self._resting()
        if found is None:
            with self._moment:
                found = self._resting()
        return found or self._greeted(connect(self.url, prepares=not self.behind_pooler))

    def _resting(self) -> Connection | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break  # another thread was faster
            if _is_alive(connection):
                return connection
            connection.close()
        return None

    def _put(self, connection: Connection, loan: _Loan) -> None:
        if self._closed or self._pid != os.getpid():
            connection.close()
        elif not connection.closed:
            _uninterrupted(partial(self._idle.append, connection), loan.connections.clear)

    def _greeted(self, connection: Connection) -> Connection:
        """What a new connection leads to: a board of a version this client knows, directly or through a pooler.

        A pooler that hands each transaction to another server process gives away a process id that is not the server's.
        Statements prepared there would be gone the next time, and nothing can be listened to.
        """
        from dibs.store.postgres.migrating import refuse_unless_fit, version

        try:
            refuse_other_encodings(connection)
            row = connection.execute(
                "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('default_transaction_isolation')",
                prepare=False,
            ).fetchone()
            assert row is not None
            self.behind_pooler = row[0] != connection.info.backend_pid
            if self.behind_pooler:
                connection.prepare_threshold = None
            else:
                # In other schemas, others may be allowed to create functions that pass for PostgreSQL's own.
                search_path = "SET search_path = pg_catalog, pg_temp"
                connection.execute(f"{search_path}; SET lock_timeout = {round(self._wait_seconds * 1000)}")
            if row[1] != "read committed":
                raise StoreUnusable(
                    f"transactions of this database are {row[1]} by default and must be read committed:"
                    " ALTER ROLE ... SET default_transaction_isolation = 'read committed'"
                )
            refuse_unless_fit(version(connection))
        except BaseException:
            connection.close()
            raise
        return connection


class _Loan:
    """What one piece of work has of the pool: a place, and a connection, which is clean once the work is over."""

    def __init__(self) -> None:
        self.place: list[object] = []
        self.connections: list[Connection] = []
        self.is_clean = False


def _places() -> queue.SimpleQueue[object]:
    places: queue.SimpleQueue[object] = queue.SimpleQueue()
    for number in range(CONNECTIONS_MAX):
        places.put(number)
    return places


def _uninterrupted(*steps: Callable[[], object]) -> None:
    """Call functions that are written in C one after the other, with no bytecode between them."""
    list(map(operator.call, steps))


def _is_alive(connection: Connection) -> bool:
    """Whether nothing has come from the server since: an idle connection hears only bad news."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def explain(error: psycopg.Error) -> DibsError:
    """What the database's error means to whoever called a verb."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, pg.InsufficientPrivilege):
        return StoreUnusable(f"the database refuses: {text}")
    if _is_refused(error):
        return StoreUnusable(f"the database refuses the connection: {text}")
    if isinstance(error, pg.DiskFull | pg.OutOfMemory):
        return StoreUnavailable(f"the database is out of room: {text}", retry_after_seconds=60)
    if isinstance(error, pg.QueryCanceled):
        return StoreUnavailable(f"the database gave up on it: {text}", retry_after_seconds=RETRY_SECONDS)
    if isinstance(error, pg.LockNotAvailable):
        text = "another client has kept what this needs for too long; perhaps it left a transaction open"
        return StoreUnavailable(text, retry_after_seconds=RETRY_SECONDS)
    if is_away(error) or isinstance(error, AGAIN):
        return StoreUnavailable(f"the database is away: {text}", retry_after_seconds=RETRY_SECONDS)
    return StoreUnusable(f"the database failed: {text}")


def is_away(error: psycopg.Error) -> bool:
    """Whether the connection, or the server, is gone: perhaps for a moment only."""
    if isinstance(error, ELSEWHERE):
        return True
    # libpq's own errors, of a connection that could not be made or broke, have no SQLSTATE; a pooler's are of class 08.
    if error.sqlstate is not None:
        return error.sqlstate.startswith("08")
    return isinstance(error, psycopg.OperationalError) and not _is_refused(error)


def is_nobody_there(error: psycopg.Error) -> bool:
    """Whether no server listens at any of the URL's addresses. One that is starting, full or a replica is there."""
    attempts = str(error).split("connection to server")[1:]
    return bool(attempts) and all(one.partition(" failed: ")[2].startswith(NOBODY_THERE) for one in attempts)


def _is_refused(error: psycopg.Error) -> bool:
    return error.sqlstate is None and any(words in str(error) for words in REFUSED)


def pause(attempt: int) -> None:
    """Before trying again: longer each time, drawn so that a crowd spreads out."""
    time.sleep(int.from_bytes(os.urandom(2), "big") / 2**16 * min(0.5, 0.01 * 2**attempt))


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_inherited: list[Connection] = []


def _after_fork() -> None:
    for pool in list(_pools):
        pool.forget()


os.register_at_fork(after_in_child=_after_fork)
