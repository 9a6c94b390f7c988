"""Removes the file of a board and the files that dibs and SQLite made beside it, and nothing else."""

from __future__ import annotations

import os
from stat import S_ISREG

from dibs.errors import StoreUnusable
from dibs.store.sqlite.lock import FairLock
from dibs.store.sqlite.side_files import SUFFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Every SQLite file starts with this; anything else at a board's path is not a board.
SQLITE_HEADER = b"SQLite format 3\0"


def remove(path: str, wait_seconds: float, check: Callable[[], None]) -> list[str]:
    """Remove the board at `path`, unless `check` refuses it. No process writes to the board meanwhile; one that has it
    open finds it gone. Return the removed paths."""
    path = os.path.abspath(path)
    _require_board(path)
    lock = FairLock(path, wait_seconds)
    try:
        lock.acquire()
        check()
        return unlink_files(path, ("", *SUFFIXES))
    finally:
        lock.release()
        lock.forget()


def unlink_files(path: str, suffixes: tuple[str, ...]) -> list[str]:
    """Remove the regular files among `path` with each suffix; links and folders stay."""
    found = [path + suffix for suffix in suffixes]
    removed = [one for one in found if os.path.lexists(one) and S_ISREG(os.lstat(one).st_mode)]
    for one in removed:
        os.unlink(one)
    return removed


def remove_folder(path: str) -> list[str]:
    """Remove a folder if it is empty."""
    try:
        os.rmdir(path)
    except OSError:
        return []
    return [path]


def _require_board(path: str) -> None:
    if not S_ISREG(os.lstat(path).st_mode):
        raise StoreUnusable(f"{path} is not a regular file, so it is not removed", path=path)
    with open(path, "rb") as file:
        start = file.read(len(SQLITE_HEADER))
    if start not in (SQLITE_HEADER, b""):
        raise StoreUnusable(f"{path} is not a board, so it is not removed", path=path)
