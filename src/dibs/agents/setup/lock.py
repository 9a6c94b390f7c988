"""One setup at a time: two that edit the same files, or remove folders that both need, would not leave what was there.

The lock is on the home folder itself, so that no file of ours is left behind.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dibs.errors import StoreUnavailable

#: How long another setup may take. It may also be asking a person.
LOCK_SECONDS, LOCK_POLL_SECONDS = 10.0, 0.02


@contextmanager
def locked(home: str) -> Iterator[None]:
    while not os.path.isdir(home):
        home = os.path.dirname(home)
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(folder)
        yield
    finally:
        os.close(folder)


def _lock(folder: int) -> None:
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise StoreUnavailable("another `dibs setup` is running; answer its question, or try again") from None
            time.sleep(LOCK_POLL_SECONDS)
        except OSError:
            return None  # a file system without such locks: a setup that meets another one notices changed files
