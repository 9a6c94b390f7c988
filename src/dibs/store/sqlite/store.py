"""The SQLite store: one file, any number of processes on one machine.

Each verb is one transaction: the fair lock, `BEGIN IMMEDIATE`, the clock, the rules, the writes, a durable commit, the
bell. The verbs stand in `claim_path`, `tickets`, `upkeep` and `reading`; here is what carries them.
"""

from __future__ import annotations

import _thread
import os
import time
from _weakref import ref

import apsw

from dibs import jsontext, wire
from dibs.errors import DibsError, Invalid, StoreUnavailable
from dibs.store.contract import Store
from dibs.store.sqlite.claim_path import ClaimPath
from dibs.store.sqlite.connection import explain, open_database
from dibs.store.sqlite.lock import FairLock
from dibs.store.sqlite.queries import PATH
from dibs.store.sqlite.reading import Reading
from dibs.store.sqlite.tickets import Tickets
from dibs.store.sqlite.transaction import Refused, Transaction
from dibs.store.sqlite.upkeep import Upkeep
from dibs.store.sqlite.wakeup import Bell, BellWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import Prune, Request
    from dibs.store.contract import Watch
    from dibs.value import Value

    T = TypeVar("T")

#: Connections a forked child inherited: never used, and never closed, since SQLite must not close what another opened.
_inherited: list[apsw.Connection] = []
_stores: list[ref[SqliteStore]] = []


def system_clock() -> int:
    return time.time_ns() // 1_000_000


class SqliteStore(ClaimPath, Tickets, Upkeep, Reading, Store):
    def __init__(
        self, path: str, settings: Settings, *, create: bool = False, clock: Callable[[], int] = system_clock
    ) -> None:
        self.path = os.path.abspath(path)
        self.settings = settings
        self._clock = clock
        self._mutex = _thread.allocate_lock()
        self._lock = FairLock(self.path + "-lock", settings.lock_wait_seconds)
        self._bell = Bell(self.path + "-bell")
        self._pid = os.getpid()
        self._current: Transaction | None = None
        self._connection: apsw.Connection | None = self._open(create)
        _stores.append(ref(self, _stores.remove))

    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T:
        """Do `work` in one durable transaction. With a request, once: its answer, of values of `kind`, is kept."""
        with _Turn(self):
            connection = self._connected()
            try:
                self._lock.acquire()
                return self._transact(connection, work, request, kind)
            except (apsw.Error, OSError) as error:
                raise explain(error, self.path) from error
            finally:
                self._finish(connection)
                self._lock.release()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` on one snapshot, without any lock."""
        with _Turn(self):
            connection = self._connected()
            try:
                connection.execute("BEGIN")
                return work(self._transaction(connection))
            except apsw.Error as error:
                raise explain(error, self.path) from error
            finally:
                self._finish(connection)

    # Whole boards; what they take is imported where it is wanted, not by every claim.

    def prune(self, *, older_than_seconds: float, limit: int) -> Prune:
        from dibs.store.sqlite import archive

        return self.write(lambda t: archive.prune(t, older_than_seconds, limit))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        from dibs.store.sqlite import archive

        # A connection of its own, to be read at leisure while everybody else goes on.
        connection = self._open(create=False)
        try:
            connection.execute("BEGIN")
            yield from archive.export(Transaction(connection.cursor(), self._clock(), self.settings))
        finally:
            connection.close(True)

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        from dibs.store.sqlite import archive

        return self.write(lambda t: archive.load(t, records))

    def backup(self, path: str) -> None:
        from dibs.store.sqlite import archive

        source = self._open(create=False)
        try:
            archive.backup(source, path)
        finally:
            source.close()

    def restore(self, path: str, *, actor: str) -> int:
        from dibs.store.sqlite import archive

        if not os.path.isfile(path):
            raise Invalid(f"there is no backup at {path}", field="path")
        given, now = self.read(lambda t: (archive.highest(t), t.now))
        half = f"{self.path}-restore-{os.getpid()}"
        try:
            restored, concerned = archive.moved_on(path, half, self.settings, actor, given, now)
            self._overwrite(lambda live: archive.copy_pages(restored, live))
            restored.close()
            return concerned
        finally:
            for left in (half, half + "-lock", half + "-wal", half + "-shm"):
                if os.path.exists(left):
                    os.unlink(left)

    def _overwrite(self, work: Callable[[apsw.Connection], None]) -> None:
        """Do `work` on the connection itself while no other writer can."""
        with _Turn(self):
            connection = self._connected()
            try:
                self._lock.acquire()
                work(connection)
            except (apsw.Error, OSError) as error:
                raise explain(error, self.path) from error
            finally:
                self._lock.release()
            self._bell.ring()

    def watch(self) -> Watch:
        connection = self._open(create=False)
        return BellWatch(
            self._bell.path,
            data_version=lambda: int(connection.pragma("data_version")),
            close=connection.close,
        )

    def close(self) -> None:
        with _Turn(self):
            connection, self._connection = self._connection, None
            if connection is not None and self._pid == os.getpid():
                connection.close()
            self._lock.forget()
            self._bell.close()

    def _transact(
        self,
        connection: apsw.Connection,
        work: Callable[[Transaction], T],
        request: Request | None,
        kind: type[Value] | None,
    ) -> T:
        connection.execute("BEGIN IMMEDIATE")
        transaction = self._transaction(connection)
        refusal: DibsError | None = None
        answer: Any = None
        known = None if request is None else self._answered(transaction, request)
        if known is not None:
            assert kind is not None, "a verb with requests says what it answers with"
            repeated: T = _revived(known, kind)
            return repeated
        try:
            answer = work(transaction)
        except Refused as refused:
            refusal = refused.refusal
        if request is not None and refusal is None and answer != ():
            self._keep(transaction, request, answer)
        transaction.close()
        connection.execute("COMMIT")
        if transaction.changed:
            self._bell.ring()
        if refusal is not None:
            raise refusal
        result: T = answer
        return result

    def _transaction(self, connection: apsw.Connection) -> Transaction:
        self._current = Transaction(connection.cursor(), self._clock(), self.settings)
        return self._current

    def _finish(self, connection: apsw.Connection) -> None:
        """Leave the connection as it was found, whatever a refusal's traceback may keep alive."""
        if self._current is not None:
            self._current.close()
            self._current = None
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def _answered(self, transaction: Transaction, request: Request) -> Any:
        since = transaction.now - round(self.settings.request_kept_seconds * 1000)
        row = transaction.one(PATH["request"], actor=request.actor, id=request.id, since=since)
        if row is None:
            return None
        if row[0] != request.fingerprint:
            raise Invalid(
                f"request id {request.id} was used for something else; a new request needs a new id", field="request_id"
            )
        return jsontext.loads(row[1])

    def _keep(self, transaction: Transaction, request: Request, answer: Any) -> None:
        kept = jsontext.dumps(wire.encode(answer))
        transaction.run(PATH["keep_request"], {**request.as_dict(), "answer": kept, "at": transaction.now})

    def _connected(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreUnavailable(f"the board {self.path} was closed")
        if self._pid != os.getpid():
            _inherited.append(self._connection)
            self._connection, self._pid = self._open(create=False), os.getpid()
        return self._connection

    def _open(self, create: bool) -> apsw.Connection:
        try:
            return open_database(self.path, self.settings, self._lock, create=create)
        except OSError as error:
            raise explain(error, self.path) from error


class _Turn:
    """The threads of one process take turns on its connection, with the same bound on waiting as between processes."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        seconds = self._store.settings.lock_wait_seconds
        if not self._store._mutex.acquire(timeout=seconds):
            raise StoreUnavailable(f"another thread has used the board for over {seconds:g}s", retry_after_seconds=1)

    def __exit__(self, *_: object) -> None:
        self._store._mutex.release()


def _after_fork() -> None:
    """In a forked child: nobody's turn, and nothing open that is the parent's."""
    for reference in _stores:
        store = reference()
        if store is not None:
            store._mutex = _thread.allocate_lock()
            store._lock.forget()
            store._bell.close()


os.register_at_fork(after_in_child=_after_fork)


def _revived(answer: Any, kind: type[Value]) -> Any:
    if isinstance(answer, list):
        return tuple(wire.decode(kind, one) for one in answer)
    return wire.decode(kind, answer)
