"""Which files may have changed since the last look, for processes that stay.

The kernel queues the word of a change in the very system call that makes it, so what it has not told of has not
changed, and a write need not look at ten thousand files to know that. Where it cannot tell (no inotify, too many
watches, a queue that ran over, a folder that came or went), everything may have changed.
"""

from __future__ import annotations

import os
import struct

from dibs.store.vault.scanning import BY_AGENT, FOLDERS, SUFFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctypes import CDLL

IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF = 0x100, 0x200, 0x400, 0x800
IN_Q_OVERFLOW, IN_IGNORED, IN_ONLYDIR, IN_DONT_FOLLOW, IN_ISDIR = 0x4000, 0x8000, 0x1000000, 0x2000000, 0x40000000
FILES = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
SELF = IN_DELETE_SELF | IN_MOVE_SELF
EVENT = struct.Struct("iIII")
READ_BYTES = 65536


class Blind(Exception):
    """This system, or this moment, has no eyes to give."""


class Eyes:
    """One process's. `descriptor` becomes readable when there is something to see."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._pid = os.getpid()
        self._library = _library()
        self.descriptor = int(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self.descriptor < 0:
            raise Blind("no more inotify instances")
        self._places: dict[int, str] = {}
        self._fresh = True

    def changed(self) -> set[str] | None:
        """Paths of files that may have changed since this was last asked; None: any may have."""
        if self._fresh:
            self._look_at_folders()
            self._fresh = False
            self._read()
            return None
        paths = self._read()
        if paths is None:
            self._look_at_folders()
            self._read()
        return paths

    def close(self) -> None:
        if self.descriptor >= 0 and self._pid == os.getpid():
            os.close(self.descriptor)
        self.descriptor = -1

    def is_ours(self) -> bool:
        """Not after a fork: what the child reads, the parent would miss."""
        return self._pid == os.getpid()

    def _look_at_folders(self) -> None:
        self._watch("", IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE)
        for folder in FOLDERS:
            self._watch(folder, FILES | SELF)
        try:
            agents = os.listdir(os.path.join(self._root, BY_AGENT))
        except OSError:
            agents = []
        for agent in agents:
            self._watch(f"{BY_AGENT}/{agent}", FILES | SELF)

    def _watch(self, folder: str, mask: int) -> None:
        path = os.fsencode(os.path.join(self._root, folder))
        number = self._library.inotify_add_watch(self.descriptor, path, mask | IN_ONLYDIR | IN_DONT_FOLLOW)
        if number >= 0:
            self._places[number] = folder
        elif os.path.isdir(path) and not os.path.islink(path):
            raise Blind(f"{folder} cannot be watched")

    def _read(self) -> set[str] | None:
        """What was told; None if that is not everything."""
        found: set[str] = set()
        all_told = True
        while True:
            try:
                data = os.read(self.descriptor, READ_BYTES)
            except BlockingIOError:
                return found if all_told else None
            at = 0
            while at < len(data):
                number, mask, _, length = EVENT.unpack_from(data, at)
                name = data[at + EVENT.size : at + EVENT.size + length].rstrip(b"\0").decode("utf-8", "surrogateescape")
                at += EVENT.size + length
                folder = self._places.get(number)
                if mask & (IN_Q_OVERFLOW | IN_IGNORED | SELF) or (mask & IN_ISDIR and not name.startswith(".")):
                    all_told = False
                elif folder and name.endswith(SUFFIX) and not name.startswith("."):
                    found.add(f"{folder}/{name}")


def _library() -> CDLL:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "inotify_init1"):
        raise Blind("this system has no inotify")
    return library
