"""Files and folders below one root, opened by descriptor: no link is followed, and nothing outside is touched.

People, their programs and all who push to the vault's git remote write into a vault, so anything in it may be hostile:
links to elsewhere, FIFOs that block, devices, endless files.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from dibs.store.vault.layout import HIDDEN
from dibs.system.durable import sync

TEMPORARY = f"{HIDDEN}/tmp"
FILE_BYTES_MAX = 16_000_000
#: The least room that a file must have for the draft and the notes of a run.
ROOM_BYTES = 2_000_000
#: Leaves room in the 255 bytes of a file name for prefixes and suffixes of dibs.
NAME_BYTES_MAX = 200
#: Two writes within this time may leave the same mtime: the clock of a file system advances in ticks.
TICK_NS = 10_000_000
#: The number of attempts to read a file that keeps changing.
READS_MAX = 20

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _READ | os.O_DIRECTORY
_FILE = _READ | os.O_NONBLOCK | os.O_NOCTTY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Raced(Exception):
    """A file has other content than was read, or is no longer where it was."""


class Unfit(Exception):
    """A file that dibs does not touch, with the reason."""


class Stamp(tuple[int, int, int, int]):
    """Inode, size, mtime_ns and ctime_ns: a file with the same stamp has the same content."""

    __slots__ = ()

    @property
    def content(self) -> tuple[int, ...]:
        """The part that a rename does not change. The inode alone would not do: it is reused."""
        return self[:3]


class Folder:
    """An open folder; leaving the `with` block closes it."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def stat(self, name: str, bytes_max: int = FILE_BYTES_MAX) -> os.stat_result:
        """Stat a file without opening it; Unfit if it is not a plain file."""
        found = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        _require_fit(found, bytes_max)
        return found

    def read(self, name: str, bytes_max: int = FILE_BYTES_MAX) -> tuple[bytes, os.stat_result]:
        """The content of a file, and the stat of exactly this content. Never blocks."""
        for _ in range(READS_MAX):
            self.stat(name, bytes_max)  # before opening it: opening a FIFO or a device has effects
            try:
                descriptor = os.open(name, _FILE, dir_fd=self.descriptor)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    continue
                raise
            try:
                before = os.fstat(descriptor)
                _require_fit(before, bytes_max)
                data = _read_all(descriptor, before.st_size, bytes_max)
                after = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if after.st_nlink == 1 and stamp_of(before) == stamp_of(after):
                return data, after
        raise Raced(f"{self.path}/{name} keeps changing")

    def write(
        self, name: str, data: bytes, mode: int = 0o666, *, like: os.stat_result | None = None, durable: bool = True
    ) -> None:
        """Create a file, durably; on failure there is none."""
        descriptor = os.open(name, _NEW, mode, dir_fd=self.descriptor)
        try:
            try:
                if like is not None:
                    _copy_owner_and_mode(descriptor, like)
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                # The mtime is set back, so that the next write, however soon, leaves another mtime.
                moment = time.time_ns() - 2 * TICK_NS
                os.utime(descriptor, ns=(moment, moment))
                if durable:
                    sync(descriptor)
            finally:
                os.close(descriptor)
        except BaseException:
            self.unlink(name)
            raise

    def unlink(self, name: str) -> None:
        """Remove this one file, if it exists."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            pass


class SafeRoot:
    """The root folder, opened once. Descriptors of folders are closed after each call, since folders come and go."""

    descriptor = -1

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        #: Folders whose entries changed since the last `sync`.
        self.touched: set[str] = set()
        self.descriptor = os.open(self.root, _FOLDER)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()

    def folder(self, path: str, *, make: bool = False) -> Folder:
        """Open a folder by its path from the root; FileNotFoundError, or Unfit if it is a link or not a folder."""
        if not path:
            return Folder(os.dup(self.descriptor), path)
        outer, passed = None, ""
        for name in path.split("/"):
            try:
                inner = self._enter(self.descriptor if outer is None else outer, passed, name, make)
            finally:
                if outer is not None:
                    os.close(outer)
            outer = inner
            passed = f"{passed}/{name}" if passed else name
        assert outer is not None
        return Folder(outer, path)

    def sync(self) -> None:
        """Make all changes of the folders in `touched` durable."""
        for path in sorted(self.touched):
            try:
                with self.folder(path) as folder:
                    sync(folder.descriptor)
            except (FileNotFoundError, Unfit):
                pass  # a removed folder has no entries to keep, and a link leads to none of ours
            self.touched.discard(path)

    def _enter(self, outer: int, passed: str, name: str, make: bool) -> int:
        try:
            return _open_folder(outer, name)
        except FileNotFoundError:
            if not make:
                raise
        try:
            os.mkdir(name, dir_fd=outer)
        except FileExistsError:
            pass
        self.touched.add(passed)
        return _open_folder(outer, name)


def stamp_of(found: os.stat_result) -> Stamp:
    return Stamp((found[1], found[6], found.st_mtime_ns, found.st_ctime_ns))


def version_of(path: str) -> tuple[int, int] | None:
    """Inode and mtime of the file at a full path, which change when the file is replaced; None if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def why_unfit(found: os.stat_result, bytes_max: int = FILE_BYTES_MAX) -> str | None:
    """Why dibs does not touch this file; None if it does."""
    mode = found.st_mode
    if not stat.S_ISREG(mode):
        return next((why for is_kind, why in _KINDS if is_kind(mode)), "is not a regular file")
    if found.st_nlink > 1:
        return f"has {found.st_nlink} hard links"
    if found.st_size > bytes_max:
        return f"has {found.st_size} bytes; {bytes_max} is the most"
    return None


_KINDS = (
    (stat.S_ISLNK, "is a symbolic link"),
    (stat.S_ISDIR, "is a folder"),
    (stat.S_ISFIFO, "is a FIFO"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)


def why_name_unfit(name: str) -> str | None:
    """Why dibs does not touch a file or folder of this name; None if it does."""
    if name.startswith("."):
        return "has a hidden name"  # this includes `.` and `..`, and the names that dibs and git use
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if not 0 < size <= NAME_BYTES_MAX:
        return f"has a name of {size} bytes; {NAME_BYTES_MAX} is the most"
    if "/" in name or (not name.isprintable() and any(ord(char) < 32 or ord(char) == 127 for char in name)):
        return "has control characters in its name"
    return None


def printable(path: str) -> str:
    """A path as text that can be printed and stored, even if it is not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _open_folder(outer: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=outer)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Unfit(f"{name} is a link or no folder") from None
        raise


def _require_fit(found: os.stat_result, bytes_max: int) -> None:
    why = why_unfit(found, bytes_max)
    if why is not None:
        raise Unfit(why)


def _read_all(descriptor: int, size: int, bytes_max: int) -> bytes:
    """All of a file of this size, even while it grows, up to the size limit. The caller compares the stats before and
    after: a read that gives `size` bytes where one more was asked for needs no other to find the end."""
    data = os.read(descriptor, size + 1)
    while len(data) <= bytes_max:
        if len(data) == size or not (more := os.read(descriptor, bytes_max + 1 - len(data))):
            return data
        data += more
    raise Unfit(f"has over {bytes_max} bytes")


def _copy_owner_and_mode(descriptor: int, like: os.stat_result) -> None:
    """The same permissions; the same owner, where this process may change it."""
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(descriptor, like.st_uid, like.st_gid)
        except PermissionError:
            pass
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & 0o777)
