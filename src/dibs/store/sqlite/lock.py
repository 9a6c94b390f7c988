"""The fair lock in front of SQLite's own locks.

SQLite's busy handler polls, so with eight writers some of them starve. The kernel queues requests for a file lock, so
every write transaction first locks a side file. The lock belongs to an open file description: a crash releases it, exec
does not pass it on, and a forked child closes its copy. Waiting is bounded, because a stopped process may hold the lock
forever; the file has the pid of the last holder, for the error message.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import os
import struct

from dibs.errors import StoreUnavailable
from dibs.store.sqlite.side_files import LOCK, open_beside

#: Linux has OFD locks. Elsewhere `flock`, which also belongs to the open file description.
_HAS_OFD = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8
_LOCK_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_UNLOCK_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)


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
        self._queued: _QueuedRequest | None = None

    def acquire(self) -> None:
        self._is_wanted = True
        descriptor = self._opened()
        if not _try(descriptor) and not self._wait(descriptor):
            raise StoreUnavailable(
                f"the board is busy: {self._holder()} has held its lock for over {self.wait_seconds:g}s; try again",
                retry_after_seconds=self.wait_seconds,
            )
        _write_pid(descriptor)

    def release(self) -> None:
        if not self._is_wanted:
            return
        if self._queued is not None:
            self._leave(self._queued)
        if self._descriptor is not None:
            try:
                _unlock(self._descriptor)
            except OSError:
                self.forget()  # closing the descriptor also unlocks
        self._is_wanted = False

    def stop_waiting(self) -> None:
        """End a wait in another thread now, as if its time were up."""
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

    def _wait(self, descriptor: int) -> bool:
        """Queue for the lock in a thread, because a blocking lock request has no timeout."""
        queued = self._queued = _QueuedRequest(descriptor)
        _thread.start_new_thread(queued.wait_in_queue, ())
        queued.wait(self.wait_seconds)
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

    def __init__(self, descriptor: int) -> None:
        self.error: OSError | None = None
        self._descriptor = descriptor
        #: Acquired by the first of two: the thread, when its request is granted, or the caller that withdraws it.
        self._decision = _thread.allocate_lock()
        self._withdrawn: list[bool] = []
        self._news = _thread.allocate_lock()
        self._news.acquire()

    def wait_in_queue(self) -> None:
        try:
            _block(self._descriptor)
        except OSError as error:
            self.error = error
        if not self._decision.acquire(False):
            # Closing is not enough: a child that was forked meanwhile has a copy of the descriptor.
            _unlock(self._descriptor)
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
    """Write the holder's pid for error messages; a failure, such as a full disk, does not matter."""
    try:
        os.pwrite(descriptor, b"%-20d\n" % os.getpid(), 0)
    except OSError:
        pass


def _try(descriptor: int) -> bool:
    try:
        if _HAS_OFD:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _LOCK_WHOLE_FILE)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _block(descriptor: int) -> None:
    if _HAS_OFD:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, _LOCK_WHOLE_FILE)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _unlock(descriptor: int) -> None:
    if _HAS_OFD:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _UNLOCK_WHOLE_FILE)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
