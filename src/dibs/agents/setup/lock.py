"""One setup at a time: two that edit the same files, or remove folders that both need, would not leave what was there.

The lock is on the home folder itself, so that no file of ours is left behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from dibs.errors import StoreUnavailable
from dibs.system import locks

#: How long another setup may take. It may also be asking a person.
LOCK_SECONDS = 10.0


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
    try:
        is_locked = locks.within(LOCK_SECONDS, lambda: locks.try_lock(folder))
    except OSError:
        return  # a file system without such locks: a setup that meets another one notices changed files
    if not is_locked:
        raise StoreUnavailable("another `dibs setup` is running; answer its question, or try again")
