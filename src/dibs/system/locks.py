"""Locks of files between processes.

A lock belongs to the open file description: the kernel releases it when the last descriptor is closed, so also when its
process dies. The lock of a file that was removed is worth nothing, since the next process makes the file anew.
"""

from __future__ import annotations

import fcntl
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

POLL_SECONDS = 0.05
#: How often a lock is taken of a file that its last holder removes meanwhile.
TRIES_MAX = 10


def try_lock(file: int) -> bool:
    """Lock an open file or folder; False if another process has the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock(file: int, *, is_shared: bool = False) -> None:
    """Wait for the lock without a limit of time."""
    fcntl.flock(file, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)


def unlock(file: int) -> None:
    """Release the lock, also if another process has a copy of the descriptor."""
    fcntl.flock(file, fcntl.LOCK_UN)


def is_at(file: int, path: str) -> bool:
    """Whether the path names this open file, and not another one that replaced it."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def take(path: str) -> int | None:
    """The locked file at this path, which is made if there is none; None if another process has the lock. The lock is
    released by closing the descriptor."""
    for _ in range(TRIES_MAX):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            is_locked, is_there = try_lock(file), is_at(file, path)
        except BaseException:
            os.close(file)
            raise
        if is_locked and is_there:
            return file
        os.close(file)
        if is_there:
            return None
    return None


def within(seconds: float, attempt: Callable[[], bool], is_over: Callable[[], bool] = lambda: False) -> bool:
    """Attempt to lock until it succeeds, for this time at most, and not once `is_over` says that the lock is not needed
    any more."""
    until = time.monotonic() + seconds
    while not attempt():
        if time.monotonic() >= until or is_over():
            return False
        time.sleep(POLL_SECONDS)
    return True


class FileLock:
    """The lock of the file at a path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.descriptor = -1

    def acquire(self) -> bool:
        """Lock the file; False if another process has the lock."""
        found = take(self._path)
        self.descriptor = -1 if found is None else found
        return found is not None

    def release(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            unlock(descriptor)
            os.close(descriptor)
