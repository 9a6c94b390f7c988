"""Files that are whole and on the disk, or not there at all; and whether somebody else is writing one."""

from __future__ import annotations

import os

#: What SQLite may leave beside a database that it was writing.
BESIDE = ("", "-journal", "-wal", "-shm")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NewFile:
    """The path of an empty file to be written, its owner's alone, which becomes `path` when the block ends. A file that
    is there by then is not overwritten: `FileExistsError`. If the block raises, nothing is left."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._half = f"{path}.{os.urandom(4).hex()}.half"

    def __enter__(self) -> str:
        if os.path.lexists(self._path):
            raise FileExistsError(self._path)
        os.close(os.open(self._half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return self._half

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with open(self._half, "rb") as file:
                    sync(file.fileno())
                _give_name(self._half, self._path)
                sync_folder(os.path.dirname(os.path.abspath(self._path)))
        finally:
            for left in BESIDE:
                try:
                    os.unlink(self._half + left)
                except FileNotFoundError:
                    pass


class OwnFolder:
    """A new folder for a few files, which go with it. `inner` are folders that will be in it, the innermost first.
    Whatever else is found in it stays, and then so does the folder: nothing is removed as a tree."""

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
            pass  # there is more in it than files, which is not ours
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
    """A link does not overwrite a file made meanwhile; a rename would."""
    try:
        os.link(half, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: the name is taken first, and only the file that took it is replaced.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.replace(half, path)


def sync(descriptor: int) -> None:
    """Let it reach the disk itself: macOS's fsync stops at the disk's memory."""
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
    """Take a lease of a file that is open to read, until it is closed: it holds up whoever opens the file to write.
    False if somebody has it open so already, None where there are no leases."""
    import errno
    import fcntl
    import signal

    if not hasattr(fcntl, "F_SETLEASE"):
        return None
    try:
        # Whoever opens the file sends a signal, which by default would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    return True
