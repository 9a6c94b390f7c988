"""Files that are complete and on the disk, or do not exist; and leases that detect other writers."""

from __future__ import annotations

import os

#: A database and the files that SQLite may leave beside it.
SQLITE_SUFFIXES = ("", "-journal", "-wal", "-shm")
#: How many files that were left are removed at once, and how often a new one is tried.
LEFT_MAX, TRIES_MAX = 100, 10
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NewFile:
    """Gives the path of an empty private file, which becomes `path` when the block ends. An existing file is not
    overwritten: `FileExistsError`. If the block raises, nothing is left; what a killed process has left of this file is
    removed by the next one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._half, self._lock = "", -1

    def __enter__(self) -> str:
        if os.path.lexists(self._path):
            raise FileExistsError(self._path)
        _remove_left(self._path)
        for _ in range(TRIES_MAX):
            self._half = f"{self._path}.{os.urandom(4).hex()}.half"
            self._lock = os.open(self._half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            # Another process may have taken it for left between the two calls.
            if _is_locked_at(self._lock, self._half):
                return self._half
            os.close(self._lock)
        raise FileExistsError(self._half)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with open(self._half, "rb") as file:
                    sync(file.fileno())
                _give_name(self._half, self._path)
                sync_folder(os.path.dirname(os.path.abspath(self._path)))
        finally:
            for suffix in SQLITE_SUFFIXES:
                _unlink_if_there(self._half + suffix)
            os.close(self._lock)


def _is_locked_at(file: int, path: str) -> bool:
    """Lock an open file, and say whether it is the one at the path."""
    from dibs.system import locks

    return locks.try_lock(file) and locks.is_at(file, path)


def _remove_left(path: str) -> None:
    """Remove the files that killed processes have left of `NewFile(path)`: regular files of this user with exactly such
    a name, which no living process has locked."""
    import re

    folder, name = os.path.split(os.path.abspath(path))
    pattern = re.compile(rf"{re.escape(name)}\.[0-9a-f]{{8}}\.half")
    try:
        names = sorted(filter(pattern.fullmatch, os.listdir(folder)))[:LEFT_MAX]
    except OSError:
        return
    for half in names:
        _remove_half(os.path.join(folder, half))


def _remove_half(half: str) -> None:
    from stat import S_ISREG

    try:
        file = os.open(half, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        found = os.fstat(file)
        if S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and _is_locked_at(file, half):
            for suffix in reversed(SQLITE_SUFFIXES):
                _unlink_if_there(half + suffix)
    except OSError:
        pass  # it stays, as before
    finally:
        os.close(file)


def require_new(path: str) -> None:
    """Check that `NewFile` can write this file: its errors are raised now, and nothing is left."""
    new = NewFile(path)
    os.unlink(new.__enter__())
    os.close(new._lock)


class TemporaryFolder:
    """A new folder, removed with the files in it and in the folders `inner` (innermost first). If anything else is in
    it, the folder stays: nothing is removed as a tree."""

    def __init__(self, prefix: str, inner: tuple[str, ...] = ()) -> None:
        import tempfile

        self.path = os.path.abspath(tempfile.mkdtemp(prefix=prefix))
        self._inner = inner
        self._made = os.lstat(self.path)

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        try:
            folder = os.open(self.path, _FOLDER)
        except OSError:
            return
        try:
            if os.path.samestat(os.fstat(folder), self._made):
                for name in self._inner:
                    _remove_inner(name, folder)
                _unlink_all(folder)
                os.rmdir(self.path)
        except OSError:
            pass  # the folder contains more than these files
        finally:
            os.close(folder)


def _remove_inner(name: str, outer: int) -> None:
    try:
        folder = os.open(name, _FOLDER, dir_fd=outer)
    except FileNotFoundError:
        return
    try:
        _unlink_all(folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=outer)


def _unlink_all(folder: int) -> None:
    for name in os.listdir(folder):
        os.unlink(name, dir_fd=folder)


def _give_name(half: str, path: str) -> None:
    """Link the file to its name: unlike a rename, a link does not overwrite a file that was made meanwhile."""
    try:
        os.link(half, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: reserve the name, then replace the reservation.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.replace(half, path)


def replace(
    path: str,
    data: bytes,
    *,
    mode: int = 0o600,
    keeps_mode: bool = False,
    is_synced: bool = True,
    half: str | None = None,
) -> None:
    """Write or replace a file in one step: a reader finds the old content or the new one, and a failure leaves nothing.

    A new file has `mode` less the umask; with `keeps_mode`, the mode of the file that it replaces. `half` is the
    temporary file where its name is a lock to other programs; it must not exist. What is not `is_synced` may be lost
    with the power, and then be empty.
    """
    folder = os.path.dirname(path) or os.curdir
    # Hidden, so that nobody who lists the folder takes it for a file of theirs, and short, whatever the file's name is.
    half = half or os.path.join(folder, f".{os.urandom(8).hex()}.dibs")
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            if keeps_mode and os.path.exists(path):
                os.fchmod(descriptor, os.stat(path).st_mode & 0o7777)
            file.write(data)
            if is_synced:
                file.flush()
                sync(descriptor)
        os.replace(half, path)
    except BaseException:
        _unlink_if_there(half)
        raise
    if is_synced:
        sync_folder(folder)


def write_private(path: str, data: bytes) -> None:
    """Write or replace a file that only its owner may read, and make its folder."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace(path, data)


def _unlink_if_there(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def sync(descriptor: int) -> None:
    """Flush a file to the disk itself: on macOS, fsync stops at the cache of the disk."""
    import fcntl

    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
            return
        except OSError:
            pass  # a file system without it
    os.fsync(descriptor)


def sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def lease(descriptor: int) -> bool | None:
    """Take a lease of a file that is open for reading, until it is closed: a process that opens the file for writing
    has to wait. False if a process has it open for writing, None where there are no leases."""
    import errno
    import fcntl
    import signal

    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # The kernel signals that another process opens the file, by default with a signal that ends this one.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    return True
