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

from dibs.errors import DibsError, Invalid, StoreUnavailable
from dibs.store.contract import Store
from dibs.store.sqlite.claim_path import ClaimPath
from dibs.store.sqlite.connection import explain, open_database, shorten_log
from dibs.store.sqlite.lock import FairLock
from dibs.store.sqlite.sweeping import Sweeping
from dibs.store.sqlite.together import Piece, Row
from dibs.store.sqlite.transaction import SqliteTransaction
from dibs.store.sqlite.wakeup import Bell, BellWatch
from dibs.store.tables import requests
from dibs.store.tables.keys import Keys
from dibs.store.tables.reading import Reading
from dibs.store.tables.tickets import Tickets
from dibs.store.tables.transaction import Refused
from dibs.store.tables.upkeep import Upkeep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import Prune, Request
    from dibs.store.contract import Watch
    from dibs.store.tables.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")

_stores: list[ref[SqliteStore]] = []


def system_clock() -> int:
    return time.time_ns() // 1_000_000


class SqliteStore(ClaimPath, Tickets, Sweeping, Upkeep, Reading, Keys, Store):
    def __init__(
        self, path: str, settings: Settings, *, create: bool = False, clock: Callable[[], int] = system_clock
    ) -> None:
        # One board, one lock and one bell, whatever links lead to it.
        self.path = os.path.realpath(path)
        self.settings = settings
        self._clock = clock
        self._mutex = _thread.allocate_lock()
        self._lock = FairLock(self.path + "-lock", settings.lock_wait_seconds)
        self._bell = Bell(self.path + "-bell")
        self._pid = os.getpid()
        self._current: SqliteTransaction | None = None
        self._row = Row()
        #: How many transactions there were; with many threads, less than there was work.
        self.commits = 0
        self._connection: apsw.Connection | None = self._open(create)
        _stores.append(ref(self, _stores.remove))

    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T:
        """Do `work` in one durable transaction. With a request, once: its answer, of values of `kind`, is kept."""
        piece = Piece(work, request, kind)
        self._row.join(piece)
        try:
            if not piece.leads:
                piece.wait(self.settings.lock_wait_seconds)
            if piece.leads:
                self._lead()
        finally:
            self._give_up(piece)
        if not piece.over:
            raise StoreUnavailable("other threads have used the board for too long", retry_after_seconds=1)
        if piece.freed and self.on_freed is not None:
            self.on_freed()
        result: T = piece.result()
        return result

    def _lead(self) -> None:
        """Do what waits to be done, in one transaction, and leave what comes meanwhile to the next."""
        with _Turn(self):
            # First, so that nothing is taken from the row by who finds the board closed.
            connection = self._connected()
            pieces = self._row.take()
            try:
                self._lock.acquire()
                self._transact(connection, pieces)
            except (apsw.Error, OSError) as error:
                _fail(pieces, explain(error, self.path), error)
            except StoreUnavailable as error:
                _fail(pieces, error, None)
            except BaseException:
                # Nothing of it is done: this thread is interrupted, and the others are not.
                self._row.put_back(pieces)
                raise
            finally:
                try:
                    self._finish(connection)
                finally:
                    self._lock.release()

    def _give_up(self, piece: Piece) -> None:
        """However a write ends: what is not done is not left to be done, and somebody else leads."""
        if not piece.over and not self._row.withdraw(piece):
            piece.wait(2 * self.settings.lock_wait_seconds)  # somebody is at it, and it is over when they are
        if piece.leads:
            self._row.hand_on()

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
        from dibs.store.tables import archive

        return self.write(lambda t: archive.prune(t, older_than_seconds, limit))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        from dibs.store.tables import archive

        # A connection of its own, to be read at leisure while everybody else goes on.
        connection = self._open(create=False)
        try:
            connection.execute("BEGIN")
            yield from archive.export(SqliteTransaction(connection.cursor(), self._clock(), self.settings))
        except apsw.Error as error:
            raise explain(error, self.path) from error
        finally:
            connection.close(True)

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        from dibs.store.tables import archive

        return self.write(lambda t: archive.load(t, records))

    def backup(self, path: str) -> None:
        from dibs.store.sqlite import backups

        source = self._open(create=False)
        try:
            backups.backup(source, path)
        finally:
            source.close()

    def restore(self, path: str, *, actor: str) -> int:
        from dibs.store.sqlite import backups
        from dibs.store.tables import archive, rows

        if not os.path.isfile(path):
            raise Invalid(f"there is no backup at {path}", field="path")
        half = f"{self.path}-restore-{os.getpid()}"

        def overwrite(live: apsw.Connection) -> int:
            # All of it while no other writer can: what was given last has to be what is moved on from.
            t = SqliteTransaction(live.cursor(), self._clock(), self.settings)
            given = archive.highest(t)
            keys = [rows.key(row) for row in t.all("keys")]
            t.close()
            restored, concerned = backups.moved_on(path, half, self.settings, actor, given, keys, t.now)
            backups.copy_pages(restored, live)
            restored.close()
            self._restored(live)
            return concerned

        try:
            return self._exclusively(overwrite)
        finally:
            for left in (half, half + "-lock", half + "-wal", half + "-shm"):
                if os.path.exists(left):
                    os.unlink(left)

    def _restored(self, connection: apsw.Connection) -> None:
        """What else there is to do before anybody sees a board that came back from a backup."""

    def _exclusively(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do `work` on the connection itself while no other writer can."""
        with _Turn(self):
            connection = self._connected()
            try:
                self._lock.acquire()
                answer = work(connection)
            except (apsw.Error, OSError) as error:
                raise explain(error, self.path) from error
            finally:
                self._lock.release()
            self._bell.ring()
            return answer

    def check(self) -> tuple[str, ...]:
        with _Turn(self):
            connection = self._connected()
            try:
                damage = [row[0] for row in connection.execute("PRAGMA integrity_check").fetchall() if row[0] != "ok"]
                mode = connection.pragma("journal_mode")
            except apsw.Error as error:
                raise explain(error, self.path) from error
        found = [f"the database is damaged: {finding}" for finding in damage]
        if mode != "wal":
            found.append(f"the journal mode is {mode}; it should be wal: open the board once with dibs init")
        return tuple(found)

    def watch(self, *, session: str | None = None) -> Watch:
        # One bell for all: whoever it does not concern looks in vain, which is cheap here.
        with _Turn(self):
            self._connected()
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
                shorten_log(connection, self.path)
                connection.close()
            self._lock.forget()
            self._bell.close()

    def _transact(self, connection: apsw.Connection, pieces: list[Piece]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if len(pieces) == 1:
            try:
                self._do(connection, pieces[0])
            except (DibsError, AssertionError) as error:
                if isinstance(error, StoreUnavailable):
                    raise
                _fail(pieces, error, None)
                return
        else:
            for piece in pieces:
                self._do_apart(connection, piece)
        self._commit(connection)
        if any(piece.changed for piece in pieces):
            self._bell.ring()
        for piece in pieces:
            piece.ended()

    def _commit(self, connection: apsw.Connection) -> None:
        connection.execute("COMMIT")
        self.commits += 1

    def _do_apart(self, connection: apsw.Connection, piece: Piece) -> None:
        """One of many in a transaction: what goes wrong in it is undone, and the others are left alone."""
        connection.execute("SAVEPOINT piece")
        try:
            self._do(connection, piece)
        except (StoreUnavailable, apsw.Error, OSError):
            raise
        except Exception as error:
            piece.error, piece.changed, piece.freed = error, False, False
            if self._current is not None:
                self._current.close()
            connection.execute("ROLLBACK TO piece")
        connection.execute("RELEASE piece")

    def _do(self, connection: apsw.Connection, piece: Piece) -> None:
        transaction = self._transaction(connection, writable=True)
        request = piece.request
        if request is not None:
            piece.answer = requests.answered(transaction, request, piece.kind)
            if piece.answer is not None:
                transaction.close()
                return
        try:
            piece.answer = piece.work(transaction)
            if request is not None and piece.answer != ():
                requests.keep(transaction, request, piece.answer)
        except Refused as refused:
            piece.error = refused.refusal
        transaction.close()
        piece.changed, piece.freed = transaction.changed, transaction.freed

    def _transaction(self, connection: apsw.Connection, *, writable: bool = False) -> SqliteTransaction:
        self._current = SqliteTransaction(connection.cursor(), self._clock(), self.settings, writable=writable)
        return self._current

    def _finish(self, connection: apsw.Connection) -> None:
        """Leave the connection as it was found, whatever a refusal's traceback may keep alive."""
        if self._current is not None:
            self._current.close()
            self._current = None
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def _connected(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreUnavailable(f"the board {self.path} was closed")
        if self._pid != os.getpid():
            # Closed first: SQLite would take the parent's locks for this process's own, and rely on them.
            self._connection.close(True)
            self._connection, self._pid = self._open(create=False), os.getpid()
        return self._connection

    def _open(self, create: bool) -> apsw.Connection:
        try:
            return open_database(self.path, self.settings, self._lock, create=create)
        except OSError as error:
            raise explain(error, self.path) from error


def _fail(pieces: list[Piece], error: BaseException, cause: BaseException | None) -> None:
    error.__cause__ = cause
    for piece in pieces:
        piece.ended(error)


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


def _open_stores() -> list[SqliteStore]:
    return [store for reference in _stores if (store := reference()) is not None]


def _before_fork() -> None:
    """No thread is in the middle of a transaction when the process splits: its half in the child would never end."""
    for store in _open_stores():
        if store._mutex.acquire(timeout=store.settings.lock_wait_seconds):
            _held_for_fork.append(store)


def _after_fork_in_parent() -> None:
    while _held_for_fork:
        _held_for_fork.pop()._mutex.release()


def _after_fork_in_child() -> None:
    """Nobody's turn, and nothing open that is the parent's."""
    _held_for_fork.clear()
    for store in _open_stores():
        store._mutex = _thread.allocate_lock()
        store._row = Row()
        store._lock.forget()
        store._bell.close()


_held_for_fork: list[SqliteStore] = []
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
