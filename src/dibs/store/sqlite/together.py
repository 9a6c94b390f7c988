"""Writes of many threads in one durable commit, each answered only after it.

A thread puts its piece of work in a row. The first one leads: it does everything that stands in the row, in one
transaction, wakes those whose work is over, and hands the lead to the next in the row. With one thread that is one
piece a transaction, as ever; with many, the disk is waited for once for all of them.
"""

from __future__ import annotations

import _thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.model import Request
    from dibs.store.tables.transaction import Transaction
    from dibs.value import Value

#: More than this is another transaction, so that nobody's answer waits for too many.
TOGETHER_MAX = 256


class Piece:
    """What one thread wants done. `over` once it is durable, or refused; `leads` once it is this thread's to do it."""

    def __init__(self, work: Callable[[Transaction], Any], request: Request | None, kind: type[Value] | None) -> None:
        self.work, self.request, self.kind = work, request, kind
        self.over = self.leads = self.changed = self.freed = False
        self.answer: Any = None
        self.error: BaseException | None = None
        self._woken = _thread.allocate_lock()
        self._woken.acquire()

    def again(self) -> None:
        """As if nothing of it had been done: it was not."""
        self.changed = self.freed = False
        self.answer, self.error = None, None

    def wait(self, timeout_seconds: float) -> None:
        """Until something became of it, or the time is up."""
        self._woken.acquire(timeout=timeout_seconds)

    def wake(self) -> None:
        if self._woken.locked():
            self._woken.release()

    def ended(self, error: BaseException | None = None) -> None:
        if error is not None:
            self.error = error
        self.over = True
        self.wake()

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer


class Row:
    """The pieces that wait, and whether somebody is at it."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._pieces: list[Piece] = []
        self._led = False

    def join(self, piece: Piece) -> None:
        """Stand in the row; if nobody leads, lead."""
        with self._lock:
            self._pieces.append(piece)
            if not self._led:
                self._led = piece.leads = True

    def take(self) -> list[Piece]:
        """The first of them, by whoever leads."""
        with self._lock:
            taken = self._pieces[:TOGETHER_MAX]
            del self._pieces[: len(taken)]
            return taken

    def put_back(self, pieces: list[Piece]) -> None:
        with self._lock:
            self._pieces[:0] = pieces

    def hand_on(self) -> None:
        """Have the next one lead, by whoever led."""
        with self._lock:
            self._led = bool(self._pieces)
            if self._pieces:
                self._pieces[0].leads = True
                self._pieces[0].wake()

    def withdraw(self, piece: Piece) -> bool:
        """Whether it was still waiting: then it will not be done."""
        with self._lock:
            if piece not in self._pieces:
                return False
            self._pieces.remove(piece)
            return True
