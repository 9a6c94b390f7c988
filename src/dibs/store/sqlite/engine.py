"""The engine of a SQLite board: one connection, the locks in front of it, and group commit.

A write takes the mutex among the threads of this process, the fair lock among processes, then `BEGIN IMMEDIATE`; after
COMMIT it rings the bell. Writes that wait for the mutex are committed together (`group_commit`).

A store with more state than the database, such as a vault, passes hooks to `Engine` as keyword arguments: `connect`
opens a connection, `reopen` leaves a board file that was removed or replaced, `new_transaction` makes the transaction
that the verbs get, `transact` wraps a whole transaction (preparation, retries) and `commit` wraps its COMMIT. For the
default, a hook calls the method of the engine that it replaces.
"""

from __future__ import annotations

import os
import time
from _weakref import ref

import apsw

from dibs.errors import StoreUnavailable
from dibs.store.sql.transaction import Refused
from dibs.store.sqlite.bell import Bell
from dibs.store.sqlite.database import OpenedFile, checkpoint, explain, explain_commit, open_database
from dibs.store.sqlite.group_commit import CommitQueue, Hold, Mutex, PendingCall, PendingWrite, busy, fails_group
from dibs.store.sqlite.lock import FairLock
from dibs.store.sqlite.transaction import SqliteTransaction
from dibs.system.fork import ForkAware

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from dibs.config import Settings
    from dibs.store.sql.transaction import Transaction
    from dibs.store.sqlite.read_connections import ReadConnections

    T = TypeVar("T")
    Connect = Callable[[bool], apsw.Connection]
    Transact = Callable[[apsw.Connection, list[PendingWrite]], None]
    Commit = Callable[[apsw.Connection, list[SqliteTransaction]], None]

#: How often one call follows a board file that is replaced again and again.
REPLACED_MAX = 10
#: A process that has the board open for longer is more than a command, and checkpoints when it leaves.
COMMAND_SECONDS_MAX = 1.0


def system_clock() -> int:
    return time.time_ns() // 1_000_000


class Engine(ForkAware):
    """Not open until `open` is called, so that hooks can refer to the engine."""

    def __init__(
        self,
        path: str,
        settings: Settings,
        clock: Callable[[], int] = system_clock,
        *,
        connect: Connect | None = None,
        reopen: Callable[[], None] | None = None,
        new_transaction: Callable[..., SqliteTransaction] = SqliteTransaction,
        transact: Transact | None = None,
        commit: Commit | None = None,
        in_caller_thread: bool = True,
    ) -> None:
        # One board has one lock and one bell, whatever links lead to it.
        self.path = os.path.realpath(path)
        self.settings, self.clock = settings, clock
        self.lock = FairLock(self.path, settings.lock_wait_seconds)
        self.bell = Bell(self.path)
        #: How many transactions were committed; with many threads, fewer than there were writes.
        self.commits = 0
        #: Whether a calling thread may use the connection itself while no other does. Otherwise the engine's thread
        #: does everything, where no signal handler can interrupt it.
        self.in_caller_thread = in_caller_thread
        #: Whether to leave a file that is complete without its WAL. For a command, the syncs would double its time.
        self.checkpoints_on_close = True
        self._began = time.monotonic()
        self._connect, self._reopen, self._new_transaction = connect, reopen, new_transaction
        self._transact, self._commit = transact, commit
        self._held_for_fork: list[Hold] = []
        self._paused_for_fork: list[CommitQueue] = []
        self._connection: apsw.Connection | None = None
        self._file = OpenedFile(self.path)
        self._current: SqliteTransaction | None = None
        self._readers: ReadConnections | None = None
        self._mutex, self.queue = Mutex(), self._new_queue()
        self.track_forks()

    def open(self, *, create: bool) -> None:
        self._connection = self.call(lambda: self._file.open(lambda: self.connect(create)))

    def write(self, write: PendingWrite) -> None:
        """Run one write in a durable transaction; `write.result` then answers or raises."""
        if not self._write_in_caller_thread(write):
            self._wait_for(write)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one snapshot, without the fair lock."""
        if self._readers is None:
            return self.read_in_turn(work)
        if self._file.is_replaced():
            self.call(self.connection)
        return self._readers.read(work)

    def read_in_turn(self, work: Callable[[Transaction], T]) -> T:
        """`read` on the connection that writes."""

        def read() -> T:
            connection = self.connection()
            connection.execute("BEGIN")
            return work(self.transaction(connection))

        return self.call(read)

    def separate_readers(self) -> None:
        """Give reads connections of their own, so that a long read delays no write."""
        from dibs.store.sqlite.read_connections import ReadConnections

        if self._readers is None:
            self._readers = ReadConnections(self.path, self.settings, self.clock, self.open_database)

    def exclusively(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` on the connection itself under the fair lock."""

        def exclusively() -> T:
            answer = work(self._locked_connection())
            self.bell.ring()
            return answer

        return self.call(exclusively)

    def close(self) -> None:
        def close() -> None:
            connection, self._connection = self._connection, None
            if connection is not None and not self.is_inherited:
                is_command = time.monotonic() - self._began < COMMAND_SECONDS_MAX
                checkpoint(connection, self.path, always=self.checkpoints_on_close or not is_command)
                connection.close()
            self.lock.forget()
            self.bell.close()

        self.lock.stop_waiting()
        if self._readers is not None:
            self._readers.close()
        self.call(close)

    # The connection: only for the thread that holds the mutex.

    def connection(self) -> apsw.Connection:
        """The connection to the board that is at the path now."""
        if self._connection is not None and not self.is_inherited and self._file.is_replaced():
            (self._reopen or self.reopen)()
        return self._opened()

    def _opened(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreUnavailable(f"the board {self.path} was closed")
        if self.is_inherited:
            # Closed first: SQLite would take the parent's locks for its own.
            self._connection.close(True)
            self._connection, self.is_inherited = self._file.open(self.connect), False
        return self._connection

    def connect(self, create: bool = False) -> apsw.Connection:
        return self.open_database(create) if self._connect is None else self._connect(create)

    def open_database(self, create: bool = False) -> apsw.Connection:
        """The default of the hook `connect`."""
        try:
            return open_database(self.path, self.settings, self.lock, create=create)
        except OSError as error:
            raise explain(error, self.path) from error

    def reopen(self, *, create: bool = False) -> None:
        """Leave a board file that was removed or replaced, and open the one at its path. SQLite would keep writing to
        the old file, where no other process sees a claim. If this fails, the next use tries again."""
        assert self._connection is not None
        self.lock.forget()
        self.bell.close()
        former, self._connection = self._connection, self._file.open(lambda: self.connect(create))
        former.close(True)
        if self._readers is not None:
            self._readers.reconnect()

    def _locked_connection(self) -> apsw.Connection:
        """Acquire the lock of the board that is at the path, without waiting for that of a former one."""
        for _ in range(REPLACED_MAX):
            connection = self._opened()
            if not self.lock.try_acquire():
                connection = self.connection()
                self.lock.acquire()
            if not self._file.is_replaced():
                return connection
            self.lock.forget()
        raise StoreUnavailable(f"the board {self.path} keeps being replaced; try again", retry_after_seconds=1)

    # Transactions

    def transact(self, connection: apsw.Connection, writes: list[PendingWrite]) -> None:
        """Run all `writes` in one transaction; the default of the hook `transact`."""
        connection.execute("BEGIN IMMEDIATE")
        bare = len(writes) == 1
        runs = [(self._run if bare or w.rolls_back else self.run_in_savepoint)(connection, w) for w in writes]
        if self._commit is None:
            self.commit(connection)
        else:
            self._commit(connection, [t for t in runs if t is not None])
        if any(write.changed for write in writes):
            self.bell.ring()

    def commit(self, connection: apsw.Connection) -> None:
        """The default of the hook `commit`, which also gets the transactions that ran."""
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            raise explain_commit(error, self.path) from error
        self.commits += 1

    def transaction(self, connection: apsw.Connection, *, writable: bool = False) -> SqliteTransaction:
        self._current = self._new_transaction(connection.cursor(), self.clock(), self.settings, writable=writable)
        return self._current

    def rollback(self, connection: apsw.Connection) -> None:
        """Roll back an open transaction. Its cursors are closed first, because a traceback may keep them alive."""
        if self._current is not None:
            self._current.close()
            self._current = None
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def run_in_savepoint(self, connection: apsw.Connection, write: PendingWrite) -> SqliteTransaction | None:
        """Run one write of several: its failure is rolled back alone."""
        connection.execute("SAVEPOINT write")
        transaction = None
        try:
            transaction = self._run(connection, write)
        except BaseException as error:
            if fails_group(error):
                raise
            write.reset()
            write.error = error
            if self._current is not None:
                self._current.close()
            connection.execute("ROLLBACK TO write")
        connection.execute("RELEASE write")
        return transaction

    def _run(self, connection: apsw.Connection, write: PendingWrite) -> SqliteTransaction:
        transaction = self.transaction(connection, writable=True)
        request = write.request
        if request is not None:
            from dibs.store.sql import requests

            write.answer = requests.answered(transaction, request, write.kind)
        if write.answer is None:
            try:
                write.answer = write.work(transaction)
                if request is not None and write.answer != ():
                    requests.keep(transaction, request, write.answer)
            except Refused as refused:
                write.error = refused.refusal
        transaction.close()
        write.changed, write.freed = transaction.changed, transaction.freed
        return transaction

    # One thread at a time uses the connection, the lock and the bell: see `group_commit`.

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` while no other thread of this process uses the connection."""
        answers: list[T] = []

        def call() -> None:
            if not self._with_mutex(lambda: answers.append(work())):
                raise busy(self.settings)

        if self.in_caller_thread:
            call()
        else:
            pending = PendingCall(call)
            self._wait_for(pending)
            pending.result()
        return answers[0]

    def _write_in_caller_thread(self, write: PendingWrite) -> bool:
        """Run a write of this thread unless another thread is at work; return whether it ran."""
        if not self.in_caller_thread or self.queue.writes:
            return False
        return self._with_mutex(lambda: self._write_all([write]), timeout_seconds=0)

    def _write_queued(self) -> None:
        """Run the queued writes, including those that arrive while this thread waits for the fair lock."""
        waiting = len(self.queue.writes)
        writes: list[PendingWrite] = []
        try:
            if not self._with_mutex(lambda: self._write_all(writes, self.queue)):
                raise busy(self.settings)
        except BaseException as error:
            writes = writes or self.queue.next_writes(waiting)
            for write in writes:
                write.error = error
        for write in writes:
            write.end()

    def _write_all(self, writes: list[PendingWrite], queue: CommitQueue | None = None) -> None:
        """Acquire the fair lock, then run these writes and those that wait in the queue in one transaction."""
        connection = self._locked_connection()
        if queue is not None:
            writes += queue.next_writes()
        if writes:
            (self._transact or self.transact)(connection, writes)

    def _with_mutex(self, work: Callable[[], None], timeout_seconds: float | None = None) -> bool:
        """Run `work` under the mutex, and leave nothing open or locked; False if the mutex was not free in time."""
        hold = Hold()
        try:
            try:
                seconds = self.settings.lock_wait_seconds if timeout_seconds is None else timeout_seconds
                if not self._mutex.acquire(hold, seconds):
                    return False
                work()
            finally:
                self._release(hold)
        except BaseException as error:
            # Repeated, because an interrupt may have cut off the first call.
            self._release(hold)
            if isinstance(error, apsw.Error) or (isinstance(error, OSError) and error.errno is not None):
                raise explain(error, self.path) from error
            raise
        return True

    def _release(self, hold: Hold) -> None:
        if hold.is_held:
            try:
                if self._connection is not None:
                    self.rollback(self._connection)
            finally:
                self.lock.release()
                self._mutex.release(hold)

    def _wait_for(self, call: PendingCall) -> None:
        """Have the engine's thread run a call. If this thread is interrupted, a call that has not begun is dropped."""
        try:
            self.queue.put(call)
            if call.wait(2 * self.settings.lock_wait_seconds):  # one for earlier calls, one for the fair lock
                return
            if call.take():
                raise busy(self.settings)
            call.wait()
        except BaseException:
            call.take()
            raise

    def _run_queue(self) -> None:
        """In the engine's thread: run calls until none is waiting."""
        while self.queue.others or self.queue.writes:
            for call in self.queue.next_calls():
                call.run()
            if self.queue.writes:
                self._write_queued()

    def _new_queue(self) -> CommitQueue:
        # The thread must not keep an engine alive that nothing else uses.
        engine = ref(self)

        def find() -> Callable[[], None] | None:
            found = engine()
            return None if found is None else found._run_queue

        return CommitQueue(find)

    # Forks

    def before_fork(self) -> None:
        """Wait until no thread is inside a transaction, because in the child no thread would end it."""
        if self.queue.pause(self.settings.lock_wait_seconds):
            self._paused_for_fork.append(self.queue)
        hold = Hold()
        if self._mutex.acquire(hold, self.settings.lock_wait_seconds):
            self._held_for_fork.append(hold)

    def after_fork_in_parent(self) -> None:
        while self._held_for_fork:
            self._mutex.release(self._held_for_fork.pop())
        while self._paused_for_fork:
            self._paused_for_fork.pop().resume()

    def after_fork_in_child(self) -> None:
        """Start with free locks and an empty queue, and close the parent's descriptors."""
        self._held_for_fork.clear()
        self._paused_for_fork.clear()
        self._mutex, self.queue = Mutex(), self._new_queue()
        self.lock.forget()
        self.bell.close()
        if self._readers is not None:
            self._readers.close()
            self._readers = None
