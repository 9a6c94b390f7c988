"""The SQLite store: one file, any number of processes on one machine.

Each verb is one transaction: the fair lock, `BEGIN IMMEDIATE`, the clock, the rules, the writes, a durable commit, the
bell. The verbs stand in `claim_path`, `tickets`, `upkeep` and `reading`; here is what carries them.
"""

from __future__ import annotations

import os
import time
from _weakref import ref

import apsw

from dibs.errors import Invalid, StoreUnavailable
from dibs.files.fork import ForkAware
from dibs.store.contract import Store
from dibs.store.sql import requests
from dibs.store.sql.keys import Keys
from dibs.store.sql.reading import Reading
from dibs.store.sql.tickets import Tickets
from dibs.store.sql.transaction import Refused
from dibs.store.sql.upkeep import Upkeep
from dibs.store.sqlite import side_files
from dibs.store.sqlite.bell import Bell, BellWatch
from dibs.store.sqlite.claim_path import ClaimPath
from dibs.store.sqlite.database import SCHEMA_VERSION, explain, explain_commit, open_database, shorten_log
from dibs.store.sqlite.group_commit import Call, CallQueue, PendingWrite, Turn, Turns
from dibs.store.sqlite.lock import FairLock
from dibs.store.sqlite.sweep import Sweeping
from dibs.store.sqlite.transaction import SqliteTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import Prune, Request
    from dibs.store.contract import Watch
    from dibs.store.sql.transaction import Transaction
    from dibs.store.sqlite.read_connections import Readers
    from dibs.value import Value

    T = TypeVar("T")


def system_clock() -> int:
    return time.time_ns() // 1_000_000


class SqliteStore(ClaimPath, Tickets, Sweeping, Upkeep, Reading, Keys, ForkAware, Store):
    #: Whether callers may use the connection themselves while no other thread does. Else everything is done by the
    #: store's thread: see `group_commit`.
    callers_take_turns = True
    #: Statements that make tables of a kind of board that others do not have.
    more_tables: tuple[str, ...] = ()

    def __init__(
        self, path: str, settings: Settings, *, create: bool = False, clock: Callable[[], int] = system_clock
    ) -> None:
        # One board, one lock and one bell, whatever links lead to it.
        self.path = os.path.realpath(path)
        self.settings = settings
        self._clock = clock
        self._lock = FairLock(self.path, settings.lock_wait_seconds)
        self._bell = Bell(self.path)
        self._held_for_fork: list[Turn] = []
        self._paused_for_fork: list[CallQueue] = []
        self._current: SqliteTransaction | None = None
        self._turns, self._calls = Turns(), self._new_queue()
        #: How many transactions there were; with many threads, less than there was work.
        self.commits = 0
        self._connection: apsw.Connection | None = None
        self._readers: Readers | None = None
        self.track_forks()
        self._connection = self._call(lambda: self._open(create))

    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T:
        """Do `work` in one durable transaction. With a request, once: its answer, of values of `kind`, is kept."""
        write = PendingWrite(work, request, kind)
        if not self._write_alone(write):
            self._wait_for(write)
        if write.freed and self.on_freed is not None:
            self.on_freed()
        result: T = write.result()
        return result

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` on one snapshot, without any lock."""
        return self._read_in_turn(work) if self._readers is None else self._readers.read(work)

    def _read_in_turn(self, work: Callable[[Transaction], T]) -> T:
        """The same on the connection that writes."""

        def read() -> T:
            connection = self._connected()
            connection.execute("BEGIN")
            return work(self._transaction(connection))

        return self._call(read)

    def separate_readers(self) -> None:
        from dibs.store.sqlite.read_connections import Readers

        if self._readers is None:
            self._readers = Readers(self.path, self.settings, self._clock, self._open_reader)

    # One thread at a time uses the connection, the lock and the bell: see `group_commit`.

    def _write_alone(self, write: PendingWrite) -> bool:
        """Carry out a write of this thread, if no other thread is at work; whether it was."""
        if not self.callers_take_turns or self._calls.writes:
            return False
        return self._in_turn(lambda: self._write_all(lambda: [write]), timeout_seconds=0)

    def _write_queued(self) -> None:
        """Carry out the writes that wait. Those that come while the board's lock is waited for are among them."""
        waiting = len(self._calls.writes)
        writes: list[PendingWrite] = []

        def take() -> list[PendingWrite]:
            writes.extend(self._calls.next_writes())
            return writes

        try:
            if not self._in_turn(lambda: self._write_all(take)):
                raise self._busy()
        except BaseException as error:
            writes = writes or self._calls.next_writes(waiting)
            for write in writes:
                write.error = error
        for write in writes:
            write.end()

    def _write_all(self, take: Callable[[], list[PendingWrite]]) -> None:
        """Carry out in one transaction what can be taken once the board's lock is held."""
        connection = self._connected()
        self._lock.acquire()
        writes = take()
        if writes:
            self._transact(connection, writes)

    def _call(self, work: Callable[[], T]) -> T:
        """Do `work` while no other thread of this process uses the connection."""
        answers: list[T] = []

        def call() -> None:
            if not self._in_turn(lambda: answers.append(work())):
                raise self._busy()

        if self.callers_take_turns:
            call()
        else:
            queued = Call(call)
            self._wait_for(queued)
            queued.result()
        return answers[0]

    def _in_turn(self, work: Callable[[], None], timeout_seconds: float | None = None) -> bool:
        """Do `work` when it is this thread's turn; False if that was not so in time."""
        turn = Turn()
        try:
            try:
                seconds = self.settings.lock_wait_seconds if timeout_seconds is None else timeout_seconds
                if not self._turns.take(turn, seconds):
                    return False
                work()
            finally:
                self._end_turn(turn)
        except BaseException as error:
            # Again, since an interrupt may have cut off the first time.
            self._end_turn(turn)
            if isinstance(error, apsw.Error) or (isinstance(error, OSError) and error.errno is not None):
                raise explain(error, self.path) from error
            raise
        return True

    def _end_turn(self, turn: Turn) -> None:
        """End a turn, if this is one: nothing is left open or locked."""
        if turn.is_taken:
            try:
                if self._connection is not None:
                    self._finish(self._connection)
            finally:
                self._lock.release()
                self._turns.end(turn)

    def _wait_for(self, call: Call) -> None:
        """Have the store's thread carry out a call. If this thread is interrupted, what has not begun is not done."""
        try:
            self._calls.put(call)
            if call.wait(2 * self.settings.lock_wait_seconds):  # for those before it, and for the board's lock
                return
            if call.take():
                raise self._busy()
            call.wait()
        except BaseException:
            call.take()
            raise

    def _carry_out_calls(self) -> None:
        """In the store's thread: until nothing waits any more."""
        while self._calls.others or self._calls.writes:
            for call in self._calls.next_calls():
                call.carry_out()
            if self._calls.writes:
                self._write_queued()

    def _new_queue(self) -> CallQueue:
        # The thread must not keep a store alive that nobody else uses any more.
        store = ref(self)

        def find() -> Callable[[], None] | None:
            found = store()
            return None if found is None else found._carry_out_calls

        return CallQueue(find)

    def _busy(self) -> StoreUnavailable:
        seconds = self.settings.lock_wait_seconds
        return StoreUnavailable(f"other threads have used the board for over {seconds:g}s", retry_after_seconds=1)

    # Whole boards; what they take is imported where it is wanted, not by every claim.

    def prune(self, *, older_than_seconds: float, limit: int) -> Prune:
        from dibs.store.sql import archive

        return self.write(lambda t: archive.prune(t, older_than_seconds, limit))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        from dibs.store.sql import archive

        # A connection of its own, to be read at leisure while everybody else goes on.
        connection = self._call(lambda: self._open(create=False))
        try:
            connection.execute("BEGIN")
            yield from archive.export(SqliteTransaction(connection.cursor(), self._clock(), self.settings))
        except apsw.Error as error:
            raise explain(error, self.path) from error
        finally:
            connection.close(True)

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        from dibs.store.sql import archive

        return self.write(lambda t: archive.load(t, records))

    def backup(self, path: str) -> None:
        from dibs.store.sqlite import backups

        source = self._call(lambda: self._open(create=False))
        try:
            backups.backup(source, path)
        finally:
            source.close()

    def restore(self, path: str, *, actor: str) -> int:
        from dibs.store.sql import archive, rows
        from dibs.store.sqlite import backups

        if not os.path.isfile(path):
            raise Invalid(f"there is no backup at {path}", field="path")
        half = f"{self.path}-restore-{os.urandom(4).hex()}"

        def overwrite(live: apsw.Connection) -> int:
            # All of it while no other writer can: what was given last has to be what is moved on from.
            t = SqliteTransaction(live.cursor(), self._clock(), self.settings)
            given = archive.highest(t)
            keys = [rows.key(row) for row in t.all("keys")]
            t.close()
            concerned = backups.move_on(copy, self.settings, actor, given, keys, t.now)
            backups.copy_pages(copy, live)
            self._restored(live)
            return concerned

        try:
            copy = backups.prepared(path, half, self.settings, self.more_tables)
            try:
                return self._exclusively(overwrite)
            finally:
                copy.close()
        finally:
            for left in (half, *(half + suffix for suffix in side_files.SUFFIXES)):
                if os.path.lexists(left):
                    os.unlink(left)

    def _restored(self, connection: apsw.Connection) -> None:
        """What else there is to do before anybody sees a board that came back from a backup."""

    def _exclusively(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do `work` on the connection itself while no other writer can."""

        def exclusively() -> T:
            connection = self._connected()
            self._lock.acquire()
            answer = work(connection)
            self._bell.ring()
            return answer

        return self._call(exclusively)

    def check(self) -> tuple[str, ...]:
        from dibs.store.sqlite import schema

        def check() -> tuple[str, ...]:
            connection = self._connected()
            damage = [str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
            mode = connection.pragma("journal_mode")
            found = [f"the database is damaged: {finding.replace(';', ',')}" for finding in damage]
            if mode != "wal":
                found.append(f"the journal mode is {mode}, not wal; dibs init sets it again and loses nothing")
            for what in schema.differences(connection, SCHEMA_VERSION, self.more_tables):
                what = f"the schema is not the one that dibs makes: it has {what}".replace(";", ",")
                found.append(f"{what}; dibs runs nothing of it: dibs copy into a new board leaves it behind")
            return tuple(found)

        return self._call(check)

    def notes(self) -> tuple[tuple[str, str], ...]:
        mode = os.stat(self.path).st_mode & 0o007
        if not mode:
            return ()
        from shlex import quote

        what = f"{self.path} can be {'changed' if mode & 0o002 else 'read'} by every user of this machine"
        return ((what, f"chmod o= {quote(self.path)}*"),)

    def watch(self, *, session: str | None = None) -> Watch:
        # One bell for all: whoever it does not concern looks in vain, which is cheap here.
        def watch() -> Watch:
            self._connected()
            connection = self._open(create=False)

            def data_version() -> int:
                try:
                    return int(connection.pragma("data_version"))
                except apsw.Error as error:
                    raise explain(error, self.path) from error

            return BellWatch(self._bell, data_version=data_version, close=connection.close)

        return self._call(watch)

    def close(self) -> None:
        def close() -> None:
            connection, self._connection = self._connection, None
            if connection is not None and not self.is_inherited:
                shorten_log(connection, self.path)
                connection.close()
            self._lock.forget()
            self._bell.close()

        self._lock.stop_waiting()
        if self._readers is not None:
            self._readers.close()
        self._call(close)

    def _transact(self, connection: apsw.Connection, writes: list[PendingWrite]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if len(writes) == 1:
            self._do(connection, writes[0])
        else:
            for write in writes:
                self._do_apart(connection, write)
        self._commit(connection)
        if any(write.changed for write in writes):
            self._bell.ring()

    def _commit(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            raise explain_commit(error, self.path) from error
        self.commits += 1

    def _do_apart(self, connection: apsw.Connection, write: PendingWrite) -> None:
        """One of many in a transaction: what goes wrong in it is undone, and the others are left alone."""
        connection.execute("SAVEPOINT write")
        try:
            self._do(connection, write)
        except (StoreUnavailable, apsw.Error, OSError):
            raise
        except BaseException as error:
            write.reset()
            write.error = error
            if self._current is not None:
                self._current.close()
            connection.execute("ROLLBACK TO write")
        connection.execute("RELEASE write")

    def _do(self, connection: apsw.Connection, write: PendingWrite) -> None:
        transaction = self._transaction(connection, writable=True)
        request = write.request
        if request is not None:
            write.answer = requests.answered(transaction, request, write.kind)
            if write.answer is not None:
                transaction.close()
                return
        try:
            write.answer = write.work(transaction)
            if request is not None and write.answer != ():
                requests.keep(transaction, request, write.answer)
        except Refused as refused:
            write.error = refused.refusal
        transaction.close()
        write.changed, write.freed = transaction.changed, transaction.freed

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
        if self.is_inherited:
            # Closed first: SQLite would take the parent's locks for this process's own, and rely on them.
            self._connection.close(True)
            self._connection, self.is_inherited = self._open(create=False), False
        return self._connection

    # Forks

    def before_fork(self) -> None:
        """No thread is in the middle of a transaction when the process forks: the child's half would never end."""
        if self._calls.pause(self.settings.lock_wait_seconds):
            self._paused_for_fork.append(self._calls)
        turn = Turn()
        if self._turns.take(turn, self.settings.lock_wait_seconds):
            self._held_for_fork.append(turn)

    def after_fork_in_parent(self) -> None:
        while self._held_for_fork:
            self._turns.end(self._held_for_fork.pop())
        while self._paused_for_fork:
            self._paused_for_fork.pop().go_on()

    def after_fork_in_child(self) -> None:
        """No turn is taken, no call waits, and nothing that belongs to the parent stays open."""
        self._held_for_fork.clear()
        self._paused_for_fork.clear()
        self._turns, self._calls = Turns(), self._new_queue()
        self._lock.forget()
        self._bell.close()
        if self._readers is not None:
            self._readers.close()
            self._readers = None

    def _open_reader(self) -> apsw.Connection:
        return self._open(create=False)

    def _open(self, create: bool) -> apsw.Connection:
        try:
            return open_database(self.path, self.settings, self._lock, create=create)
        except OSError as error:
            raise explain(error, self.path) from error
