"""Group commit: one thread at a time uses the connection, and waiting writes of other threads share one transaction.

A signal handler may raise in the main thread between any two bytecodes, so a caller can be interrupted anywhere, even
right after its COMMIT or with a lock held. Two rules keep an interrupt harmless:

- A caller runs only its own call. Writes that arrive while another thread is at work are queued, and run together in a
  thread of the engine, where no signal handler runs. So an interrupt never leaves it uncertain whether the write of
  another thread was committed.
- Whether a caller holds the mutex is recorded by the same C call that acquires it: see `Mutex.acquire`.
"""

from __future__ import annotations

import _thread
from _operator import call

import apsw

from dibs.errors import StoreUnavailable, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.config import Settings
    from dibs.model import Request
    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

#: The most writes of one transaction, so that no answer waits for too many others.
GROUP_MAX = 256
#: How long the engine's thread stays idle before it ends: an idle process needs no thread.
IDLE_SECONDS = 1.0


class Mutex:
    """Held by the one thread that may use the connection, the fair lock and the bell."""

    def __init__(self) -> None:
        self._free = _thread.allocate_lock()

    def acquire(self, hold: Hold, timeout_seconds: float) -> bool:
        """Acquire the mutex and record it in `hold` with no bytecode, and so no signal handler, in between."""
        hold.acquired.extend(map(self._free.acquire, (True,), (timeout_seconds,)))
        return hold.is_held

    def release(self, hold: Hold) -> None:
        """Release the mutex and clear the record, also with no bytecode in between."""
        list(map(call, (self._free.release, hold.acquired.clear)))


class Hold:
    """One caller's record of whether it holds the mutex."""

    def __init__(self) -> None:
        self.acquired: list[bool] = []

    @property
    def is_held(self) -> bool:
        return self.acquired == [True]


class PendingCall:
    """A call queued for the engine's thread, which runs it unless its caller withdraws it first."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work = work
        self.answer: Any = None
        self.error: BaseException | None = None
        self._taken = _thread.allocate_lock()
        self._finished = _thread.allocate_lock()
        self._finished.acquire()

    def take(self) -> bool:
        """Take the call, to run it or to drop it: True for the first caller, False for every other."""
        return self._taken.acquire(False)

    def run(self) -> None:
        try:
            self.answer = self.work()
        except BaseException as error:
            self.error = error
        self.end()

    def end(self) -> None:
        """Wake the caller. Called once, by the thread that took the call."""
        self._finished.release()

    def wait(self, timeout_seconds: float = -1) -> bool:
        """Wait for the end, without a limit by default; return whether the call has ended."""
        return self._finished.acquire(timeout=timeout_seconds)

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer


class PendingWrite(PendingCall):
    """A write. `changed`: it changed the board; `freed`: it made an item claimable."""

    #: Whether it rolls back by itself what it did and failed.
    rolls_back = False

    def __init__(self, work: Callable[[Transaction], Any], request: Request | None, kind: type[Value] | None) -> None:
        super().__init__(work)
        self.request, self.kind = request, kind
        self.changed = self.freed = False

    def reset(self) -> None:
        """Discard the outcome of an attempt that was rolled back."""
        self.changed = self.freed = False
        self.answer, self.error = None, None


class CommitQueue:
    """Waiting calls, and the thread that runs them: started by the first call, ended when it is idle.

    `find` returns the engine's function that runs everything in the queue, or None once the engine was deleted.
    """

    def __init__(self, find: Callable[[], Callable[[], None] | None]) -> None:
        self.writes: list[PendingWrite] = []
        self.others: list[PendingCall] = []
        self._find = find
        #: Held by the thread that runs calls, and across a fork, so that no thread runs then.
        self._running = _thread.allocate_lock()
        #: Held while no new call is queued; released to wake the thread.
        self._news = _thread.allocate_lock()
        self._news.acquire()
        self._forking = False

    def put(self, call: PendingCall) -> None:
        if isinstance(call, PendingWrite):
            self.writes.append(call)
        else:
            self.others.append(call)
        self._wake()

    def next_calls(self) -> list[PendingCall]:
        """Take the queued calls that are not writes."""
        return _take_first(self.others, len(self.others))

    def next_writes(self, most: int = GROUP_MAX) -> list[PendingWrite]:
        return _take_first(self.writes, most)

    # Forks: only the forking thread lives on in the child.

    def pause(self, timeout_seconds: float) -> bool:
        """End the thread and start no other before `resume`; False if it did not end in time."""
        self._forking = True
        self._signal()
        if self._running.acquire(timeout=timeout_seconds):
            return True
        self._forking = False
        self._wake()
        return False

    def resume(self) -> None:
        self._forking = False
        self._running.release()
        if self.writes or self.others:
            self._wake()

    def _wake(self) -> None:
        if not self._running.locked():
            try:
                _thread.start_new_thread(self._loop, (IDLE_SECONDS,))
            except RuntimeError:
                self._loop(0)  # no thread can start: the interpreter is shutting down, or memory is short
        self._signal()

    def _signal(self) -> None:
        try:
            self._news.release()
        except RuntimeError:
            pass  # an earlier signal is still pending

    def _loop(self, idle_seconds: float) -> None:
        """Run calls until the queue stays empty. A second thread, started at the same moment, ends at once."""
        while self._running.acquire(False):
            try:
                while self._run_all() and self._news.acquire(timeout=idle_seconds):
                    pass
            finally:
                self._running.release()
            if self._forking or not (self.writes or self.others):
                return

    def _run_all(self) -> bool:
        """Run all queued calls; return False if the thread has to end."""
        run = None if self._forking else self._find()
        if run is None:
            return False
        run()
        return True


def _take_first(queue: list[Any], most: int) -> list[Any]:
    """Remove the first calls, without those that were withdrawn. Other threads may append meanwhile."""
    first = queue[:most]
    del queue[: len(first)]
    return [call for call in first if call.take()]


def fails_group(error: BaseException) -> bool:
    """Whether an error of one write is that of the whole group. A damaged row concerns only who reads it."""
    return isinstance(error, (StoreUnavailable, apsw.Error, OSError)) and not isinstance(error, StoreUnusable)


def busy(settings: Settings) -> StoreUnavailable:
    seconds = settings.lock_wait_seconds
    return StoreUnavailable(
        f"other threads of this process have used the board for over {seconds:g}s; try again", retry_after_seconds=1
    )
