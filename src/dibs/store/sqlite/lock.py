"""The fair lock in front of SQLite's own locks.

SQLite's busy handler polls, so with eight writers some of them starve. The kernel queues requests for a file lock, so
every write transaction first locks a side file. That queue alone is not fair either: a process that unlocks and locks
again at once comes before the first in the queue, which has to wake up first. So there are two locks, on two bytes of
the file. Who has the turn, and only one has it, waits for the lock itself; the others queue for the turn, and with them
whoever has just unlocked.

The lock belongs to an open file description: a crash releases it, exec
does not pass it on, and a forked child closes its copy. Waiting is bounded, because a stopped process may hold the lock
forever; the file has the pid of the last holder, for the error message.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import os
import sys
import time

from dibs.errors import StoreUnavailable
from dibs.store.sqlite.side_files import LOCK, open_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    Part = tuple[bytes, bytes]

#: Linux has OFD locks. Elsewhere `flock`, which also belongs to the open file description.
_HAS_OFD = hasattr(fcntl, "F_OFD_SETLK") and sys.maxsize > 2**32


def _requests(first: int, number: int) -> Part:
    """The requests that lock and unlock these bytes of the file."""
    return _request(fcntl.F_WRLCK, first, number), _request(fcntl.F_UNLCK, first, number)


def _request(kind: int, first: int, number: int) -> bytes:
    """The `struct flock` of Linux on 64 bits, with its padding. The module `struct` costs more than a claim needs."""
    sizes = ((kind, 2), (os.SEEK_SET, 2), (0, 4), (first, 8), (number, 8), (0, 8))
    return b"".join(value.to_bytes(size, sys.byteorder) for value, size in sizes)


#: `flock` has only one lock, which is the lock itself.
LOCK_ITSELF, TURN, BOTH = _requests(0, 1), _requests(1, 1), _requests(0, 2)
#: How long to wait for the turn, which a stopped process may have. Then the kernel's queue for the lock itself decides.
TURN_SECONDS_MAX = 1.0
#: How long and how often who has the turn tries to lock before it waits in a thread, which takes longer to wake up.
POLL_SECONDS_MAX = 0.02
POLL_SECONDS = 0.00005


class FairLock:
    """One process's handle of the lock, used by one thread at a time.

    A signal may interrupt `acquire` at any point; `release` then unlocks whatever it had locked. An interrupted
    `release` is called again.
    """

    def __init__(self, board: str, wait_seconds: float) -> None:
        self.board = board
        self.wait_seconds = wait_seconds
        self._descriptor: int | None = None
        #: True from before the first attempt to lock until after the unlock.
        self._is_wanted = False
        self._is_stopped = False
        self._queued: _QueuedRequest | None = None

    def acquire(self) -> None:
        if self.try_acquire():
            return
        self._is_wanted = True
        self._is_stopped = False
        if not self._wait_in_turn():
            raise StoreUnavailable(
                f"the board is busy: {self._holder()} has held its lock for over {self.wait_seconds:g}s; try again",
                retry_after_seconds=self.wait_seconds,
            )
        self._begin()

    def try_acquire(self) -> bool:
        """Lock unless another process has the lock or the turn, or this process has not opened the file yet."""
        if self._descriptor is None:
            return False
        self._is_wanted = True
        if not _try(self._descriptor, BOTH):
            return False
        self._begin()
        return True

    def release(self) -> None:
        if not self._is_wanted:
            return
        if self._queued is not None:
            self._leave(self._queued)
        if self._descriptor is not None:
            try:
                _unlock(self._descriptor, BOTH)
            except OSError:
                self.forget()  # closing the descriptor also unlocks
        self._is_wanted = False

    def stop_waiting(self) -> None:
        """End a wait in another thread now, as if its time were up."""
        self._is_stopped = True
        queued = self._queued
        if queued is not None:
            queued.wake()

    def forget(self) -> None:
        """Close the descriptor. In a forked child, the parent's lock stays locked."""
        descriptor, self._descriptor, self._queued = self._descriptor, None, None
        if descriptor is not None:
            try:
                os.close(descriptor)
            except OSError:
                pass  # the descriptor is closed in spite of the error

    def __del__(self) -> None:
        self.forget()  # a program may drop a board without closing it

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = open_beside(self.board, LOCK, os.O_RDWR)
        return self._descriptor

    def _wait_in_turn(self) -> bool:
        end = time.monotonic() + self.wait_seconds
        has_turn = _try(self._opened(), TURN) or self._wait(TURN, min(end, time.monotonic() + TURN_SECONDS_MAX))
        if has_turn and _poll(self._opened(), min(end, time.monotonic() + POLL_SECONDS_MAX)):
            return True
        return not self._is_stopped and self._wait(LOCK_ITSELF, end)

    def _begin(self) -> None:
        """Give the turn to who comes next, and write down who has the lock."""
        descriptor = self._opened()
        try:
            _unlock(descriptor, TURN)
        except OSError:
            pass  # `release` unlocks both
        _write_pid(descriptor)

    def _wait(self, part: Part, end: float) -> bool:
        """Queue for a lock in a thread, because a blocking lock request has no timeout."""
        queued = self._queued = _QueuedRequest(self._opened(), part)
        _thread.start_new_thread(queued.wait_in_queue, ())
        queued.wait(max(0, end - time.monotonic()))
        is_locked = self._leave(queued)
        if queued.error is not None:
            raise queued.error
        return is_locked

    def _leave(self, queued: _QueuedRequest) -> bool:
        """Withdraw a request; return whether it was granted before."""
        is_withdrawn = queued.withdraw()
        if is_withdrawn:
            self._descriptor = None  # its thread closes it once it gets the lock
        self._queued = None
        return not is_withdrawn

    def _holder(self) -> str:
        with open(open_beside(self.board, LOCK, os.O_RDONLY), "rb") as file:
            pid = file.read(20).strip()
        return f"process {int(pid)}" if pid.isdigit() else "a process"


class _QueuedRequest:
    """A request in the kernel's queue, in a thread of its own, until it is granted or fails."""

    def __init__(self, descriptor: int, part: Part) -> None:
        self.error: OSError | None = None
        self._descriptor, self._part = descriptor, part
        #: Acquired by the first of two: the thread, when its request is granted, or the caller that withdraws it.
        self._decision = _thread.allocate_lock()
        self._withdrawn: list[bool] = []
        self._news = _thread.allocate_lock()
        self._news.acquire()

    def wait_in_queue(self) -> None:
        try:
            _block(self._descriptor, self._part)
        except OSError as error:
            self.error = error
        if not self._decision.acquire(False):
            # Closing is not enough: a child that was forked meanwhile has a copy of the descriptor.
            _unlock(self._descriptor, BOTH)
            os.close(self._descriptor)
        self.wake()

    def wait(self, seconds: float) -> None:
        self._news.acquire(timeout=seconds)

    def wake(self) -> None:
        try:
            self._news.release()
        except RuntimeError:
            pass  # an earlier wake-up is pending

    def withdraw(self) -> bool:
        """Withdraw the request unless it was granted; True if withdrawn, also when called again. The C call that
        decides also records the decision, so that no interrupt comes in between."""
        if not self._withdrawn:
            self._withdrawn.extend(map(self._decision.acquire, (False,)))
        return self._withdrawn == [True]


def _write_pid(descriptor: int) -> None:
    """Write the holder's pid for error messages, unless this process was the last holder too; a failure, such as a full
    disk, does not matter."""
    pid = b"%-20d\n" % os.getpid()
    try:
        if os.pread(descriptor, len(pid), 0) != pid:
            os.pwrite(descriptor, pid, 0)
    except OSError:
        pass


def _poll(descriptor: int, end: float) -> bool:
    while not _try(descriptor, LOCK_ITSELF):
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _try(descriptor: int, part: Part) -> bool:
    try:
        if _HAS_OFD:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, part[0])
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _block(descriptor: int, part: Part) -> None:
    if _HAS_OFD:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, part[0])
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _unlock(descriptor: int, part: Part) -> None:
    if _HAS_OFD:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, part[1])
    elif part != TURN:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
