"""The lock in front of SQLite's own, so that writers take turns.

SQLite's busy handler polls: with eight writers some of them wait for a whole run. The kernel's file locks queue, so
every write transaction first takes one on a side file. It is held by an open file description: a crash frees it, and a
child process neither inherits it through exec nor, once it has closed its copy after fork, keeps it alive. Waiting is
bounded, because a stopped process may hold the lock for ever; the file names the pid of whoever took it last, for the
error message.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import os
import struct

from dibs.errors import StoreUnavailable
from dibs.store.sqlite.side_files import LOCK, open_beside

#: Linux: locks of the open file description. Elsewhere `flock`, which is one too.
_HAS_OFD = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8
_WHOLE_FILE_TO_WRITE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_WHOLE_FILE_TO_NOBODY = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)


class FairLock:
    """One process's handle of the lock. Not for two threads at once: those of a store take turns.

    `acquire` may be interrupted at any point; `release` then leaves nothing locked, however far it had come. It may be
    interrupted itself, and is called again then.
    """

    def __init__(self, board: str, wait_seconds: float) -> None:
        self.board = board
        self.wait_seconds = wait_seconds
        self._descriptor: int | None = None
        #: From before the first try to get it until after it was released.
        self._is_wanted = False
        self._queued: _QueuedRequest | None = None

    def acquire(self) -> None:
        self._is_wanted = True
        descriptor = self._opened()
        if not _try(descriptor) and not self._wait(descriptor):
            raise StoreUnavailable(
                f"the board is busy: {self._holder()} has held its lock for over {self.wait_seconds:g}s",
                retry_after_seconds=self.wait_seconds,
            )
        _sign(descriptor)

    def release(self) -> None:
        if not self._is_wanted:
            return
        if self._queued is not None:
            self._leave(self._queued)
        if self._descriptor is not None:
            try:
                _unlock(self._descriptor)
            except OSError:
                self.forget()  # closing it unlocks it, too
        self._is_wanted = False

    def stop_waiting(self) -> None:
        """Let a wait in another thread end now, as if its time were up."""
        queued = self._queued
        if queued is not None:
            queued.wake()

    def forget(self) -> None:
        """Let go of the descriptor. In a forked child this leaves the parent's lock as it is, and the child without."""
        descriptor, self._descriptor, self._queued = self._descriptor, None, None
        if descriptor is not None:
            try:
                os.close(descriptor)
            except OSError:
                pass  # it is closed whatever the system has to say about it

    def __del__(self) -> None:
        """A program may drop a board without closing it."""
        self.forget()

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = open_beside(self.board, LOCK, os.O_RDWR)
        return self._descriptor

    def _wait(self, descriptor: int) -> bool:
        """Queue for the lock in a thread, since a queued lock request cannot be given a time limit."""
        queued = self._queued = _QueuedRequest(descriptor)
        _thread.start_new_thread(queued.wait_in_queue, ())
        queued.wait(self.wait_seconds)
        is_locked = self._leave(queued)
        if queued.error is not None:
            raise queued.error
        return is_locked

    def _leave(self, queued: _QueuedRequest) -> bool:
        """Wait no longer for a request; whether it was granted before."""
        is_withdrawn = queued.withdraw()
        if is_withdrawn:
            self._descriptor = None  # its thread closes it when it gets the lock, which frees it
        self._queued = None
        return not is_withdrawn

    def _holder(self) -> str:
        with open(open_beside(self.board, LOCK, os.O_RDONLY), "rb") as file:
            pid = file.read(20).strip()
        return f"process {int(pid)}" if pid.isdigit() else "a process"


class _QueuedRequest:
    """A request that stands in the kernel's queue, in a thread of its own, until it is granted or fails."""

    def __init__(self, descriptor: int) -> None:
        self.error: OSError | None = None
        self._descriptor = descriptor
        #: Taken by who comes first: the thread, whose request was answered, or the one that withdraws it.
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
            # Unlocked, not only closed: a child forked meanwhile has a copy of the descriptor.
            _unlock(self._descriptor)
            os.close(self._descriptor)
        self.wake()

    def wait(self, seconds: float) -> None:
        self._news.acquire(timeout=seconds)

    def wake(self) -> None:
        try:
            self._news.release()
        except RuntimeError:
            pass  # it is awake

    def withdraw(self) -> bool:
        """Whether it was withdrawn before it was answered; always the same answer. The answer is recorded by the call
        that decides it, so that an interrupt cannot come between the two."""
        if not self._withdrawn:
            self._withdrawn.extend(map(self._decision.acquire, (False,)))
        return self._withdrawn == [True]


def _sign(descriptor: int) -> None:
    """Leave the holder's pid for whoever waits in vain. A courtesy: a full disk must not cost the lock."""
    try:
        os.pwrite(descriptor, b"%-20d\n" % os.getpid(), 0)
    except OSError:
        pass


def _try(descriptor: int) -> bool:
    try:
        if _HAS_OFD:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE_TO_WRITE)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _block(descriptor: int) -> None:
    if _HAS_OFD:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, _WHOLE_FILE_TO_WRITE)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _unlock(descriptor: int) -> None:
    if _HAS_OFD:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE_TO_NOBODY)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
