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

#: Linux: locks of the open file description. Elsewhere `flock`, which is one too.
_HAS_OFD = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8
_WHOLE_FILE_TO_WRITE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_WHOLE_FILE_TO_NOBODY = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)


class FairLock:
    """One process's handle of the lock. Not for two threads at once: the store has a mutex for its threads."""

    def __init__(self, path: str, wait_seconds: float) -> None:
        self.path = path
        self.wait_seconds = wait_seconds
        self._descriptor: int | None = None

    def acquire(self) -> None:
        descriptor = self._opened()
        if not _try(descriptor) and not self._wait(descriptor):
            raise StoreUnavailable(
                f"the board is busy: {self._holder()} has held its lock for over {self.wait_seconds:g}s",
                retry_after_seconds=self.wait_seconds,
            )
        _sign(descriptor)

    def release(self) -> None:
        if self._descriptor is not None:
            _unlock(self._descriptor)

    def forget(self) -> None:
        """Let go of the descriptor. In a forked child this leaves the parent's lock as it is, and the child without."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        """A program may drop a board without closing it."""
        self.forget()

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        return self._descriptor

    def _wait(self, descriptor: int) -> bool:
        """Queue for the lock in a thread, since a queued lock request cannot be given a time limit."""
        finished, decided = _thread.allocate_lock(), _thread.allocate_lock()
        finished.acquire()
        outcome = _Outcome()

        def queue() -> None:
            try:
                _block(descriptor)
            except OSError as error:
                outcome.error = error
            with decided:
                outcome.locked = outcome.error is None and not outcome.abandoned
                if outcome.abandoned:
                    # Unlocked, not only closed: a child forked meanwhile has a copy of the descriptor.
                    _unlock(descriptor)
                    os.close(descriptor)
            finished.release()

        _thread.start_new_thread(queue, ())
        try:
            finished.acquire(timeout=self.wait_seconds)
        except BaseException:
            # Interrupted: whatever the thread was given or will be given must not outlive the wait.
            with decided:
                self._give_up(descriptor, outcome)
            raise
        with decided:
            if outcome.error is not None:
                raise outcome.error
            if not outcome.locked:
                self._give_up(descriptor, outcome)
        return outcome.locked

    def _give_up(self, descriptor: int, outcome: _Outcome) -> None:
        """Stop waiting. A thread that still queues closes the descriptor when it gets the lock, which frees it."""
        if outcome.locked:
            _unlock(descriptor)
        elif outcome.error is None:
            outcome.abandoned = True
            self._descriptor = None

    def _holder(self) -> str:
        with open(self.path, "rb") as file:
            pid = file.read(20).strip()
        return f"process {int(pid)}" if pid.isdigit() else "a process"


class _Outcome:
    """What became of a queued request, shared between the one that asked and the thread that queues."""

    error: OSError | None = None
    abandoned = False
    locked = False


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
