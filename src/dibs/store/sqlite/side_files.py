"""The files beside a board: its lock, its bell, and those that SQLite keeps there.

They have known names in a folder that others may be able to write, or that came with a clone. A link under such a name
leads to somebody's file, which would be written to. So no link is followed, and what is opened has to be a regular file
with this one name, of somebody who may write the board anyway.
"""

from __future__ import annotations

import errno
import os
from stat import S_IMODE, S_ISREG, S_IWGRP

from dibs.errors import StoreUnusable

LOCK, BELL = "-lock", "-bell"
#: What dibs and SQLite open beside a board. SQLite follows no link there either, but would write to a file that has a
#: second name.
SUFFIXES = (LOCK, BELL, "-wal", "-shm", "-journal")
#: A new board is its owner's alone; what SQLite makes beside it gets the same permissions.
BOARD_MODE = 0o600
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ROOT = 0
#: How often a file that comes and goes is looked for.
TRIES_MAX = 10


def make_board(path: str) -> None:
    """An empty file for a new board, unless another process is faster."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, BOARD_MODE))
    except FileExistsError:
        pass


def open_beside(board: str, suffix: str, flags: int) -> int:
    """A descriptor of the file with this suffix, which is made if it is not there."""
    path = board + suffix
    for _ in range(TRIES_MAX):
        try:
            descriptor = os.open(path, flags | _FLAGS)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise _planted(path) from error
            raise
        else:
            try:
                _require_fit(path, os.fstat(descriptor), os.stat(board))
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor
        try:
            return _made(path, flags, os.stat(board))
        except FileExistsError:
            pass
    raise StoreUnusable(f"{path} comes and goes: another program removes it", path=path)


def require_fit(board: str, found: os.stat_result) -> None:
    """That nothing else lies under these names beside the board `found`."""
    for suffix in SUFFIXES:
        try:
            beside = os.lstat(board + suffix)
        except FileNotFoundError:
            continue
        _require_fit(board + suffix, beside, found)


def _made(path: str, flags: int, board: os.stat_result) -> int:
    """As SQLite does it: with the board's permissions and, if root makes it, with its owner."""
    mode = S_IMODE(board.st_mode) & 0o666
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
    try:
        os.fchmod(descriptor, mode)
        if os.geteuid() == _ROOT:
            os.fchown(descriptor, board.st_uid, board.st_gid)
    except PermissionError:
        pass  # a file system that has no owners
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_fit(path: str, found: os.stat_result, board: os.stat_result) -> None:
    if not S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise _planted(path)
    if found.st_uid in (board.st_uid, os.geteuid(), _ROOT):
        return
    # A board that a group may write: whoever of the group comes first makes what lies beside it.
    if board.st_mode & S_IWGRP and found.st_gid == board.st_gid:
        return
    raise StoreUnusable(
        f"{path} belongs to uid {found.st_uid}, the board to uid {board.st_uid}: remove it, or give it to the board's"
        " owner",
        path=path,
    )


def _planted(path: str) -> StoreUnusable:
    return StoreUnusable(
        f"{path} is a link, has a second name, or is no file; what lies beside a board is its own: remove it", path=path
    )
