"""The connection pool of a process, and database errors as errors of dibs.

A connection serves one thread at a time and is returned without an open transaction. If its user was interrupted, it is
closed instead. A connection that the server closed is detected before its use, because its socket is readable: a system
call, but no round trip. After a fork the child starts with an empty pool and does not touch the parent's connections.
"""

from __future__ import annotations

import contextlib
import operator
import queue
import select
import threading
from functools import partial

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict

from dibs.errors import DibsError, StoreUnavailable, StoreUnusable
from dibs.store.contract import FULL, GONE, READ_ONLY
from dibs.system.fork import ForkAware

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    T = TypeVar("T")
    Connection = psycopg.Connection[tuple[Any, ...]]

#: Errors that rolled the transaction back, and that may not recur on a retry.
CONFLICTS = (pg.DeadlockDetected, pg.SerializationFailure)
#: Errors of a server that ended the connection or accepts no writes now; a retry may reach another server.
NOT_SERVING = (
    pg.ReadOnlySqlTransaction,
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.TooManyConnections,
    pg.IdleInTransactionSessionTimeout,
)
#: Messages of connection errors that a retry does not cure; libpq gives no code for these.
PERMANENT = (
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
#: Messages of a connection error where no server listens.
NOT_LISTENING = ("Connection refused", "No such file or directory")
ENCODING = "UTF8"
CONNECTIONS_MAX = 32
CONNECT_SECONDS = 5
RETRY_SECONDS = 1.0


def connect(url: str, *, prepares: bool = True) -> Connection:
    """A new connection, to the primary if the URL names several servers."""
    given = conninfo_to_dict(url)
    defaults: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "application_name": "dibs"}
    # A peer that disappeared without closing the connection is detected within seconds, not hours.
    defaults |= {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
    if "," in str(given.get("host", "")):
        defaults["target_session_attrs"] = "read-write"
    chosen = {name: value for name, value in defaults.items() if name not in given}
    return psycopg.connect(url, autocommit=True, prepare_threshold=5 if prepares else None, **chosen)


def refuse_other_encodings(connection: Connection) -> None:
    # Not every pooler reports the encoding.
    encoding = connection.info.parameter_status("server_encoding") or ENCODING
    if encoding != ENCODING:
        raise StoreUnusable(
            f"the encoding of this database is {encoding}, and dibs needs {ENCODING}; create another database with:"
            f" CREATE DATABASE ... ENCODING '{ENCODING}' TEMPLATE template0"
        )


class Pool(ForkAware):
    """Idle connections, the last used first, so that a quiet board keeps only a few."""

    def __init__(self, url: str, wait_seconds: float) -> None:
        self.url = url
        self.behind_pooler: bool | None = None
        self._wait_seconds = wait_seconds
        self._idle: list[Connection] = []
        self._closed = False
        self._slots = _slots()
        #: Held while `idle_connection` borrows one, so that a verb waits for it instead of opening another.
        self._borrowing = threading.Lock()
        self.track_forks()

    def run(self, work: Callable[[Connection], T]) -> T:
        loan = _Loan()
        try:
            with self._lent(loan) as connection:
                return work(connection)
        except BaseException:
            # Repeated, because an interrupt may have cut off the first call.
            self._take_back(loan)
            raise

    def connection(self) -> contextlib.AbstractContextManager[Connection]:
        """A connection for a `with` block; it is closed if the block leaves a transaction open."""
        return self._lent(_Loan())

    @contextlib.contextmanager
    def _lent(self, loan: _Loan) -> Iterator[Connection]:
        if self._closed:
            raise StoreUnavailable("the board was closed")
        try:
            self._take_slot(loan)
            connection = self._take()
            loan.connections.append(connection)
            yield connection
            loan.is_clean = True
        except (psycopg.Error, DibsError) as error:
            loan.is_clean = not isinstance(error, NOT_SERVING)
            raise
        finally:
            self._take_back(loan)

    def _take_slot(self, loan: _Loan) -> None:
        """Take one of `CONNECTIONS_MAX` slots and record it with no bytecode, and so no signal handler, in between."""
        try:
            loan.slot.extend(map(self._slots.get, (True,), (self._wait_seconds,)))
        except queue.Empty:
            raise StoreUnavailable(
                f"all {CONNECTIONS_MAX} connections have been in use for over {self._wait_seconds:g}s; try again",
                retry_after_seconds=RETRY_SECONDS,
            ) from None

    def _take_back(self, loan: _Loan) -> None:
        """End a loan. A second call does nothing."""
        for connection in loan.connections:
            if loan.is_clean and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                self._put(connection, loan)
            else:
                connection.close()
        for slot in loan.slot:
            _uninterrupted(partial(self._slots.put, slot), loan.slot.clear)

    @contextlib.contextmanager
    def idle_connection(self) -> Iterator[Connection | None]:
        """Borrow an idle connection briefly; None if there is none."""
        with self._borrowing:
            connection = self._pop_idle()
            try:
                yield connection
            finally:
                if connection is not None:
                    self._put(connection, _Loan())

    def close(self) -> None:
        self._closed = True
        for connection in self._drain():
            connection.close()

    def after_fork_in_child(self) -> None:
        """Set the parent's connections aside: to close them would end the parent's sessions on the server."""
        _inherited.extend(self._drain())
        self._slots = _slots()
        self._borrowing = threading.Lock()

    def _drain(self) -> list[Connection]:
        found, self._idle = self._idle, []
        return found

    def _take(self) -> Connection:
        found = self._pop_idle()
        if found is None:
            with self._borrowing:
                found = self._pop_idle()
        return found or self._checked(connect(self.url, prepares=not self.behind_pooler))

    def _pop_idle(self) -> Connection | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break  # another thread took it
            if _is_alive(connection):
                return connection
            connection.close()
        return None

    def _put(self, connection: Connection, loan: _Loan) -> None:
        if self._closed:
            connection.close()
        elif not connection.closed:
            _uninterrupted(partial(self._idle.append, connection), loan.connections.clear)

    def _checked(self, connection: Connection) -> Connection:
        """Check that a new connection leads to a board of a known version, and whether through a pooler.

        A pooler in transaction mode reports another process id than the server process has. Behind it, prepared
        statements and LISTEN do not work.
        """
        from dibs.store.postgres.migrating import require_version, version

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
                # In another schema, an attacker may be allowed to create functions that shadow PostgreSQL's own.
                search_path = "SET search_path = pg_catalog, pg_temp"
                connection.execute(f"{search_path}; SET lock_timeout = {round(self._wait_seconds * 1000)}")
            if row[1] != "read committed":
                raise StoreUnusable(
                    f"transactions of this database are {row[1]} by default, and dibs needs read committed:"
                    " ALTER ROLE ... SET default_transaction_isolation = 'read committed'"
                )
            require_version(version(connection))
        except BaseException:
            connection.close()
            raise
        return connection


class _Loan:
    """A slot and a connection that a caller has borrowed. `is_clean`: the work ended in order, so the connection can be
    used again."""

    def __init__(self) -> None:
        self.slot: list[object] = []
        self.connections: list[Connection] = []
        self.is_clean = False


def _slots() -> queue.SimpleQueue[object]:
    slots: queue.SimpleQueue[object] = queue.SimpleQueue()
    for number in range(CONNECTIONS_MAX):
        slots.put(number)
    return slots


def _uninterrupted(*steps: Callable[[], object]) -> None:
    """Call C functions one after the other, with no bytecode in between."""
    list(map(operator.call, steps))


def _is_alive(connection: Connection) -> bool:
    """Whether an idle connection is still open: the server sends nothing on it, so readable means closed."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def explain(error: psycopg.Error) -> DibsError:
    """An error of the database as an error of dibs."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, pg.InsufficientPrivilege):
        return StoreUnusable(f"the database denies access: {text}")
    if _is_permanent(error):
        return StoreUnusable(f"the database refuses the connection: {text}", problem=GONE)
    if isinstance(error, pg.DiskFull | pg.OutOfMemory):
        text = f"the database is out of disk space or memory: {text}"
        return StoreUnavailable(text, problem=FULL, retry_after_seconds=60)
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return accepts_no_writes()
    if isinstance(error, pg.QueryCanceled):
        return StoreUnavailable(f"the database cancelled the statement: {text}", retry_after_seconds=RETRY_SECONDS)
    if isinstance(error, pg.LockNotAvailable):
        text = "another client has held a lock for too long; perhaps it left a transaction open"
        return StoreUnavailable(text, retry_after_seconds=RETRY_SECONDS)
    if is_disconnected(error) or isinstance(error, CONFLICTS):
        text = f"the database is unreachable: {text}"
        problem = {} if isinstance(error, CONFLICTS) else {"problem": GONE}
        return StoreUnavailable(text, **problem, retry_after_seconds=RETRY_SECONDS)
    return StoreUnusable(f"the database failed: {text}")


def accepts_no_writes() -> StoreUnavailable:
    text = "the database accepts no writes: it is a standby or read-only"
    return StoreUnavailable(text, problem=READ_ONLY, retry_after_seconds=RETRY_SECONDS)


def is_disconnected(error: psycopg.Error) -> bool:
    """Whether the connection was lost or the server is not available, so that a retry may help."""
    if isinstance(error, NOT_SERVING):
        return True
    # Connection errors of libpq have no SQLSTATE; those of a pooler are of class 08.
    if error.sqlstate is not None:
        return error.sqlstate.startswith("08")
    return isinstance(error, psycopg.OperationalError) and not _is_permanent(error)


def is_not_listening(error: psycopg.Error) -> bool:
    """Whether no server listens at any address of the URL. A server that is starting, full or a replica does listen."""
    attempts = str(error).split("connection to server")[1:]
    return bool(attempts) and all(one.partition(" failed: ")[2].startswith(NOT_LISTENING) for one in attempts)


def _is_permanent(error: psycopg.Error) -> bool:
    return error.sqlstate is None and any(words in str(error) for words in PERMANENT)


#: Connections of a parent process, kept so that no garbage collection closes them.
_inherited: list[Connection] = []
