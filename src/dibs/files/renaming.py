"""Two renames that `os` does not have: one that never overwrites, and one that lets two files change places.

Linux has both as `renameat2`, macOS as `renameatx_np`. A file system may lack either (NFS and some others do); then it
is made of several calls, each of which leaves something that `mend` can finish after a crash. The order matters: a move
that links first and unlinks the old name after that gives a file to two owners, since between the two whoever renames
the old name has it as well.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: A name in a folder, which is an open descriptor.
Place = tuple[int, str]

_MISSING = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_IS_MAC = sys.platform == "darwin"
_NO_REPLACE, _EXCHANGE = (4, 2) if _IS_MAC else (1, 2)
#: What a file is called for a moment on its way, where the file system cannot move it in one step.
STRAY = ".dibs-move-"
_STRAY_LENGTH = len(STRAY) + 17


class Moved(Exception):
    """Somebody else moved the file while its text was to be exchanged."""


class Renaming:
    """The two renames. `native` is False to do without the system's, as one has to on some file systems."""

    def __init__(self, native: bool = True) -> None:
        self._native_move = self._native_swap = native

    def move(self, at: Place, to: Place) -> None:
        """Rename; FileExistsError if there is something of that name, FileNotFoundError if the file is gone."""
        if self._native_move:
            try:
                return _renamed(at, to, _NO_REPLACE)
            except OSError as error:
                if error.errno not in _MISSING:
                    raise
            self._native_move = False
        return _moved_in_steps(at, to)

    def swap(self, one: Place, other: Place, spare: Place) -> None:
        """Let two files change places. `spare` is a free name for whoever has to do it in steps.

        Done in steps, a save that renames a new file over `other` within a few microseconds is lost: what it made is
        overwritten.
        """
        if self._native_swap:
            try:
                return _renamed(one, other, _EXCHANGE)
            except OSError as error:
                if error.errno not in _MISSING:
                    raise
            self._native_swap = False
        return _swapped_in_steps(one, other, spare)


def mend(folder: int, stray: str) -> str | None:
    """Finish the move in steps that a crash left at `stray`; the name it should have, if something else has it."""
    name = stray[_STRAY_LENGTH:]
    if os.stat(stray, dir_fd=folder, follow_symlinks=False).st_nlink == 1:
        try:
            _link((folder, stray), (folder, name))
        except FileExistsError:
            return name
    os.unlink(stray, dir_fd=folder)
    return None


def _moved_in_steps(at: Place, to: Place) -> None:
    if _exists(to):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to[1])
    stray = (to[0], f"{STRAY}{os.urandom(8).hex()}-{to[1]}")
    # The owner is decided here: of all who rename this name, one does.
    _rename(at, stray)
    try:
        _link(stray, to)
    except OSError:
        _link(stray, at)
        _unlink(stray)
        raise
    _unlink(stray)


def _swapped_in_steps(one: Place, other: Place, spare: Place) -> None:
    _link(other, spare)
    try:
        if _inode(other) != _inode(spare):
            raise Moved
        _rename(one, other)
    except OSError:
        _unlink(spare)
        raise
    except Moved:
        _unlink(spare)
        raise
    if os.stat(spare[1], dir_fd=spare[0], follow_symlinks=False).st_nlink > 1:
        # It was not overwritten: it lies elsewhere, and ours must not be a second one.
        _unlink(other)
        _unlink(spare)
        raise Moved
    _rename(spare, one)


def _renamed(at: Place, to: Place, flags: int) -> None:
    call = _call()
    if call(at[0], os.fsencode(at[1]), to[0], os.fsencode(to[1]), flags) != 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), at[1], None, to[1])


_found: list[Callable[[int, bytes, int, bytes, int], int]] = []


def _call() -> Callable[[int, bytes, int, bytes, int], int]:
    if not _found:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        call = getattr(library, "renameatx_np" if _IS_MAC else "renameat2", None)
        if call is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
        call.restype = ctypes.c_int
        _found.append(call)
    return _found[0]


def _rename(at: Place, to: Place) -> None:
    os.rename(at[1], to[1], src_dir_fd=at[0], dst_dir_fd=to[0])


def _link(at: Place, to: Place) -> None:
    os.link(at[1], to[1], src_dir_fd=at[0], dst_dir_fd=to[0], follow_symlinks=False)


def _unlink(at: Place) -> None:
    os.unlink(at[1], dir_fd=at[0])


def _inode(at: Place) -> int:
    return os.stat(at[1], dir_fd=at[0], follow_symlinks=False).st_ino


def _exists(at: Place) -> bool:
    try:
        _inode(at)
    except FileNotFoundError:
        return False
    return True
