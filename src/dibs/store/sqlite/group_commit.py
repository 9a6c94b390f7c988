"""Who uses the store's connection: one thread at a time, and writes of several threads in one commit.

A signal handler may raise in the main thread between any two bytecodes, so a caller can be interrupted anywhere: also
right after its COMMIT, or with a lock in hand. Two rules keep that from doing harm:

- A caller carries out its own call and no other. Writes that come while another thread is at work are queued, and
  carried out together by a thread of the store's own, in which no signal handler runs. So no interrupt can make it
  uncertain whether the write of another thread was committed.
- What a caller holds is known from facts that no interrupt can separate from the holding: see `Turn`.
"""

from __future__ import annotations

import _thread
from _operator import call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.model import Request
    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

#: More writes than this are another transaction, so that no answer waits for too many others.
TOGETHER_MAX = 256
#: How long the store's thread stays when nothing is asked of it: a process that holds a board at rest needs no thread.
STAYS_SECONDS = 1.0


class Turns:
    """One thread at a time has the turn: the right to use the connection, the lock and the bell."""

    def __init__(self) -> None:
        self._free = _thread.allocate_lock()

    def take(self, turn: Turn, timeout_seconds: float) -> bool:
        """Wait for the turn. That it was taken is recorded by the same call that takes it: no bytecode, and so no
        signal handler, is run between the two."""
        turn.taken.extend(map(self._free.acquire, (True,), (timeout_seconds,)))
        return turn.is_taken

    def end(self, turn: Turn) -> None:
        """Let another thread have it; the record is taken back in the same call."""
        _uninterrupted(self._free.release, turn.taken.clear)


class Turn:
    """One call's record of whether it has the turn."""

    def __init__(self) -> None:
        self.taken: list[bool] = []

    @property
    def is_taken(self) -> bool:
        return self.taken == [True]


class Call:
    """What one thread asks the store's thread to do. It is taken by that thread, or withdrawn by its caller."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work = work
        self.answer: Any = None
        self.error: BaseException | None = None
        self._taken = _thread.allocate_lock()
        self._over = _thread.allocate_lock()
        self._over.acquire()

    def take(self) -> bool:
        """Decide what becomes of it: whoever is told True, which happens once, carries it out or drops it."""
        return self._taken.acquire(False)

    def carry_out(self) -> None:
        try:
            self.answer = self.work()
        except BaseException as error:
            self.error = error
        self.end()

    def end(self) -> None:
        """Wake its caller. By the one who took it, once."""
        self._over.release()

    def wait(self, timeout_seconds: float = -1) -> bool:
        """Whether it is over; the longest time to wait for that is unlimited if none is given."""
        return self._over.acquire(timeout=timeout_seconds)

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer


class PendingWrite(Call):
    """A write: `changed` and `freed` are what it did to the board, once it is over."""

    def __init__(self, work: Callable[[Transaction], Any], request: Request | None, kind: type[Value] | None) -> None:
        super().__init__(work)
        self.request, self.kind = request, kind
        self.changed = self.freed = False

    def reset(self) -> None:
        """Forget what an attempt that was rolled back had come to."""
        self.changed = self.freed = False
        self.answer, self.error = None, None


class CallQueue:
    """The calls that wait, and the thread that carries them out: started by the first call, gone when there are none.

    `find` gives what carries out everything that waits, or None if there is no such thing any more.
    """

    def __init__(self, find: Callable[[], Callable[[], None] | None]) -> None:
        self.writes: list[PendingWrite] = []
        self.others: list[Call] = []
        self._find = find
        #: Held by the thread that carries out calls; by a process that is about to fork, so that there is none.
        self._attended = _thread.allocate_lock()
        #: Held while nothing is new.
        self._news = _thread.allocate_lock()
        self._news.acquire()
        self._forking = False

    def put(self, call: Call) -> None:
        if isinstance(call, PendingWrite):
            self.writes.append(call)
        else:
            self.others.append(call)
        self._wake()

    def next_calls(self) -> list[Call]:
        """The calls that are no writes, taken from the queue."""
        return _taken(self.others, len(self.others))

    def next_writes(self, most: int = TOGETHER_MAX) -> list[PendingWrite]:
        """The first of the writes, taken from the queue."""
        return _taken(self.writes, most)

    # Forks: only the forking thread lives on in the child.

    def pause(self, timeout_seconds: float) -> bool:
        """Let the thread end, and start no other before `go_on`; False if it does not end in time."""
        self._forking = True
        self._ring()
        if self._attended.acquire(timeout=timeout_seconds):
            return True
        self._forking = False
        self._wake()
        return False

    def go_on(self) -> None:
        self._forking = False
        self._attended.release()
        if self.writes or self.others:
            self._wake()

    def _wake(self) -> None:
        if not self._attended.locked():
            try:
                _thread.start_new_thread(self._attend, (STAYS_SECONDS,))
            except RuntimeError:
                self._attend(0)  # no thread can be had: the interpreter is ending, or the machine has no room
        self._ring()

    def _ring(self) -> None:
        try:
            self._news.release()
        except RuntimeError:
            pass  # the last news have not been heard yet

    def _attend(self, stays_seconds: float) -> None:
        """Until nothing was new for a while. A second thread, started at the same time as the first, ends at once."""
        while self._attended.acquire(False):
            try:
                while self._carry_out() and self._news.acquire(timeout=stays_seconds):
                    pass
            finally:
                self._attended.release()
            if self._forking or not (self.writes or self.others):
                return

    def _carry_out(self) -> bool:
        """Whether to stay for more."""
        carry_out = None if self._forking else self._find()
        if carry_out is None:
            return False
        carry_out()
        return True


def _taken(queue: list[Any], most: int) -> list[Any]:
    """The first calls of a queue to whose end others may add meanwhile, without those that were withdrawn."""
    first = queue[:most]
    del queue[: len(first)]
    return [call for call in first if call.take()]


def _uninterrupted(*steps: Callable[[], object]) -> None:
    """Call functions that are written in C one after the other, with no bytecode between them."""
    list(map(call, steps))
