"""Files and folders beneath one root, reached by descriptors: no link is followed, nothing outside is ever touched.

A vault is written by people, by their programs and by whoever pushes to its git remote, so everything in it may be
hostile: links to elsewhere, FIFOs that never answer, devices, files without end.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from dibs.durable import sync
from dibs.store.vault.folders import HIDDEN

TEMPORARY = f"{HIDDEN}/tmp"
FILE_BYTES_MAX = 16_000_000
#: Of these, for a draft and notes of a run, at least.
ROOM_BYTES = 2_000_000
#: Leaves room in a file name's 255 for what we put before or after it.
NAME_BYTES_MAX = 200
#: Two writes within this time may leave the same mtime: clocks of file systems tick.
TICK_NS = 10_000_000
#: A file that is written to all the time is not read more often than this.
READS_MAX = 20

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _READ | os.O_DIRECTORY
_FILE = _READ | os.O_NONBLOCK | os.O_NOCTTY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Raced(Exception):
    """A file is not what was read, or not where it was."""


class Unfit(Exception):
    """Not a file we touch, and why."""


class Stamp(tuple[int, int, int, int]):
    """Inode, size, mtime_ns and ctime_ns: a file with the same stamp has the same text."""

    __slots__ = ()

    @property
    def text(self) -> tuple[int, ...]:
        """What a new name or place does not change. The inode alone would be too little: it is given again."""
        return self[:3]

    @property
    def inode(self) -> int:
        return self[0]

    @property
    def size(self) -> int:
        return self[1]

    @property
    def mtime_ns(self) -> int:
        return self[2]

    @property
    def ctime_ns(self) -> int:
        return self[3]


class Folder:
    """An open folder; leaving `with` closes it."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def look(self, name: str, bytes_max: int = FILE_BYTES_MAX) -> os.stat_result:
        """What is known of a file without opening it; Unfit if it is none."""
        found = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        _require_fit(found, bytes_max)
        return found

    def read(self, name: str, bytes_max: int = FILE_BYTES_MAX) -> tuple[bytes, os.stat_result]:
        """Its text, and what is known of the file that has exactly this text. Never waits for anybody."""
        for _ in range(READS_MAX):
            self.look(name, bytes_max)  # before it is opened: opening a FIFO or a device does something
            try:
                descriptor = os.open(name, _FILE, dir_fd=self.descriptor)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    continue
                raise
            try:
                before = os.fstat(descriptor)
                _require_fit(before, bytes_max)
                text = _text(descriptor, bytes_max)
                after = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if after.st_nlink == 1 and stamp_of(before) == stamp_of(after):
                return text, after
        raise Raced(f"{self.path}/{name} is being written to all the time")

    def write(
        self, name: str, text: bytes, mode: int = 0o666, *, like: os.stat_result | None = None, durable: bool = True
    ) -> None:
        """A new file, on disk when this returns; none if it fails."""
        descriptor = os.open(name, _NEW, mode, dir_fd=self.descriptor)
        try:
            try:
                if like is not None:
                    _make_alike(descriptor, like)
                rest = memoryview(text)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                # Dated back, so that whoever writes to it next leaves another mtime, however soon that is.
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
        """Remove that one file, if it is there."""
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            pass


class Beneath:
    """The root, opened once. Descriptors of folders live no longer than a call: folders come and go."""

    descriptor = -1

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self.touched: set[str] = set()
        self.descriptor = os.open(self.root, _FOLDER)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()

    def folder(self, path: str, *, make: bool = False) -> Folder:
        """A folder by its path from the root; FileNotFoundError, or Unfit if it is a link or no folder."""
        descriptor = os.dup(self.descriptor)
        passed = ""
        for name in path.split("/") if path else ():
            try:
                inner = self._entered(descriptor, passed, name, make)
            finally:
                os.close(descriptor)
            descriptor = inner
            passed = f"{passed}/{name}" if passed else name
        return Folder(descriptor, path)

    def sync(self) -> None:
        """Let every change of a folder that was noted in `touched` reach the disk."""
        for path in sorted(self.touched):
            try:
                with self.folder(path) as folder:
                    sync(folder.descriptor)
            except FileNotFoundError:
                pass  # a folder that was removed has nothing to keep
            self.touched.discard(path)

    def _entered(self, outer: int, passed: str, name: str, make: bool) -> int:
        try:
            return self._opened(outer, name)
        except FileNotFoundError:
            if not make:
                raise
        try:
            os.mkdir(name, dir_fd=outer)
        except FileExistsError:
            pass
        self.touched.add(passed)
        return self._opened(outer, name)

    def _opened(self, outer: int, name: str) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=outer)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Unfit(f"{name} is a link or no folder") from None
            raise


def stamp_of(found: os.stat_result) -> Stamp:
    return Stamp((found[1], found[6], found.st_mtime_ns, found.st_ctime_ns))


def unfit(found: os.stat_result, bytes_max: int = FILE_BYTES_MAX) -> str | None:
    """Why this is no file that we touch; None if it is one."""
    mode = found.st_mode
    if not stat.S_ISREG(mode):
        return next((why for is_one, why in _KINDS if is_one(mode)), "no regular file")
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


def unfit_name(name: str) -> str | None:
    """Why a file or folder of this name is not touched; None if it may be."""
    if name.startswith("."):
        return "has a hidden name"  # among them `.` and `..`, and everything of ours and of git's
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    if not 0 < size <= NAME_BYTES_MAX:
        return f"has a name of {size} bytes; {NAME_BYTES_MAX} is the most"
    if "/" in name or (not name.isprintable() and any(ord(char) < 32 or ord(char) == 127 for char in name)):
        return "has control characters in its name"
    return None


def _require_fit(found: os.stat_result, bytes_max: int) -> None:
    why = unfit(found, bytes_max)
    if why is not None:
        raise Unfit(why)


def _text(descriptor: int, bytes_max: int) -> bytes:
    """All of it, however it grows meanwhile, up to the size that a file may have."""
    text = b""
    while len(text) <= bytes_max:
        more = os.read(descriptor, bytes_max + 1 - len(text))
        if not more:
            return text
        text += more
    raise Unfit(f"has over {bytes_max} bytes")


def _make_alike(descriptor: int, like: os.stat_result) -> None:
    """The same permissions, and the same owner where we may give files away."""
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(descriptor, like.st_uid, like.st_gid)
        except PermissionError:
            pass
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & 0o777)
