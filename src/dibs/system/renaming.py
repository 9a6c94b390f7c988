"""Two renames that `os` does not have: one that never overwrites, and one that exchanges two files.

They are `renameat2` on Linux and `renameatx_np` on macOS. Some file systems, such as NFS, lack them. There, several
calls take their place, and `mend` finishes what a crash interrupted. The order of the calls matters: a move that first
links the new name and then unlinks the old one gives the file to two owners, because another process can rename the old
name in between.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: The descriptor of an open folder, and a name in it.
Place = tuple[int, str]

_MISSING = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_IS_MAC = sys.platform == "darwin"
_NO_REPLACE, _EXCHANGE = (4, 2) if _IS_MAC else (1, 2)
#: The prefix of a file's name during a move in several steps.
STRAY = ".dibs-move-"
_STRAY_LENGTH = len(STRAY) + 17


class Moved(Exception):
    """Another process moved the file that was to be exchanged."""


class Renaming:
    """The two renames. With `native=False`, the system's own are not used, as on some file systems."""

    def __init__(self, native: bool = True) -> None:
        self._native_move = self._native_swap = native

    def move(self, at: Place, to: Place) -> None:
        """Rename. FileExistsError if the new name exists, FileNotFoundError if the old one does not."""
        if self._native_move:
            try:
                return _renamed(at, to, _NO_REPLACE)
            except OSError as error:
                if error.errno not in _MISSING:
                    raise
            self._native_move = False
        return _moved_in_steps(at, to)

    def swap(self, one: Place, other: Place, spare: Place) -> None:
        """Exchange two files. `spare` is a free name, for an exchange in several steps.

        In several steps, a file that another process renames over `other` within a few microseconds is lost.
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
    """Finish the move that a crash interrupted at `stray`. Returns the intended name if another file has it."""
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
    # This decides the owner: of several processes that rename this name, one succeeds.
    rename(at, stray)
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
        rename(one, other)
    except (OSError, Moved):
        _unlink(spare)
        raise
    if os.stat(spare[1], dir_fd=spare[0], follow_symlinks=False).st_nlink > 1:
        # The file was moved, not overwritten: ours would be a second copy.
        _unlink(other)
        _unlink(spare)
        raise Moved
    rename(spare, one)


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


def rename(at: Place, to: Place) -> None:
    """Rename, and overwrite what has the new name."""
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
