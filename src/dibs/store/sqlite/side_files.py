"""The files beside a board: its lock, its bell, and those of SQLite.

Their names are predictable. Other users may be able to write to the folder, or the folder may come from a git clone: a
symbolic link in place of a side file would make dibs write to another file. So no link is followed, and a side file has
to be a regular file without other hard links, owned by a user that may write the board anyway.
"""

from __future__ import annotations

import errno
import os
from stat import S_IMODE, S_ISREG, S_IWGRP

from dibs.errors import StoreUnusable

LOCK, BELL = "-lock", "-bell"
#: The side files of dibs and SQLite. SQLite does not follow symbolic links either, but would write to a file with other
#: hard links.
SUFFIXES = (LOCK, BELL, "-wal", "-shm", "-journal")
#: SQLite gives its side files the same permissions.
BOARD_MODE = 0o600
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ROOT = 0
#: The number of attempts to open or create a file that another program keeps removing.
TRIES_MAX = 10


def make_board(path: str) -> None:
    """Create an empty file for a new board, unless it exists."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, BOARD_MODE))
    except FileExistsError:
        pass


def open_beside(board: str, suffix: str, flags: int) -> int:
    """Open the side file with this suffix, or create it."""
    path = board + suffix
    for _ in range(TRIES_MAX):
        try:
            descriptor = os.open(path, flags | _FLAGS)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise _not_a_side_file(path) from error
            raise
        else:
            try:
                _require_safe_file(path, os.fstat(descriptor), os.stat(board))
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor
        try:
            return _create(path, flags, os.stat(board))
        except FileExistsError:
            pass
    raise StoreUnusable(f"another program keeps removing {path}", path=path)


def require_safe_side_files(board: str, found: os.stat_result) -> None:
    """Refuse a board that has an unsafe side file; `found` is the stat of the board."""
    for suffix in SUFFIXES:
        try:
            beside = os.lstat(board + suffix)
        except FileNotFoundError:
            continue
        _require_safe_file(board + suffix, beside, found)


def _create(path: str, flags: int, board: os.stat_result) -> int:
    """Create the file as SQLite does: with the board's permissions and, if root creates it, with the board's owner."""
    mode = S_IMODE(board.st_mode) & 0o666
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
    try:
        os.fchmod(descriptor, mode)
        if os.geteuid() == _ROOT:
            os.fchown(descriptor, board.st_uid, board.st_gid)
    except PermissionError:
        pass  # a filesystem without owners
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_safe_file(path: str, found: os.stat_result, board: os.stat_result) -> None:
    if not S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise _not_a_side_file(path)
    if found.st_uid in (board.st_uid, os.geteuid(), _ROOT):
        return
    # If a group may write the board, any member of the group may have created the side file.
    if board.st_mode & S_IWGRP and found.st_gid == board.st_gid:
        return
    raise StoreUnusable(
        f"{path} belongs to uid {found.st_uid}, the board to uid {board.st_uid}: remove {path}, or chown it to the"
        " board's owner",
        path=path,
    )


def _not_a_side_file(path: str) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is a link, has a second name, or is not a regular file; dibs would write to it: remove it", path=path
    )
