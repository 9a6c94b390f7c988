"""Which files of a vault have changed since the last look, told by the kernel instead of found by a scan.

Linux queues an inotify event inside the system call that makes a change: whoever looks after that call has returned is
told. So a process that stays may leave out the scan before a write if nothing is told, and one that waits may wait for
a change of a file and for the bell at once. Whenever that cannot be said for sure the answer is "everything": at the
start, after an overflow, when a folder comes or goes, in a forked child, on file systems that other machines write to,
and where there is no inotify. Not told are writes through mapped memory, and through a hard link from elsewhere; so all
files are looked at every `SCAN_SECONDS` all the same, and whoever writes a file looks at that file itself.
"""

from __future__ import annotations

import os
import time

from dibs.files.fork import ForkAware
from dibs.files.mounts import filesystem_type
from dibs.files.renaming import STRAY
from dibs.store.vault import displaced_texts
from dibs.store.vault.layout import HELD, LOOKED_INTO, SUFFIX
from dibs.store.vault.safe_fs import Beneath, Unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF, IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
IN_ONLYDIR, IN_DONT_FOLLOW, IN_ISDIR = 0x1000000, 0x2000000, 0x40000000

_NAMES = (
    IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW
)
_FILES = _NAMES | IN_MODIFY | IN_ATTRIB
_LATE = IN_MODIFY | IN_ONLYDIR | IN_DONT_FOLLOW
_ALL_IS_UNSURE = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED
_HEAD_BYTES = 16

#: Told when a text was saved into a file that had given way to ours: time to ask for `late_saves`.
LATE = displaced_texts.FOLDER
#: Told when the bell was rung.
BELL = "bell"
#: Where every change is made by this machine's kernel, which tells. Of all others it is not known.
LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "tmpfs", "overlay", "vfat", "exfat"}
)
#: More than this many full reads at one look are as good as an overflow.
READS_MAX = 100
POLL_SECONDS = 0.25
#: How soon what the kernel does not tell is found, by a process that stays.
SCAN_SECONDS = 60.0
#: A system lets one have so many watches only; it is asked again after a while.
AGAIN_SECONDS = 5.0


class Eyes(ForkAware):
    def __init__(self, beneath: Beneath, *, folders: Sequence[str] = LOOKED_INTO, bell: str | None = None) -> None:
        """`bell` is a file outside the vault's folders of which writing is to be told as well."""
        self._beneath = beneath
        self._folders = tuple(folders)
        self._bell = bell
        self._watched: dict[int, str] = {}
        self.track_forks()
        self._library = _library()
        self.descriptor: int | None = None
        self._is_new = True
        self._closed_until = 0.0
        self._open()

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def __del__(self) -> None:
        self.close()

    def look(self) -> set[str] | None:
        """The paths that changed since the last look, and `LATE`, and `BELL`; None for everything."""
        if self.is_inherited:
            # The queue is the parent's: an event that is read here would be missing there.
            self.close()
            self.is_inherited, self._is_new = False, True
            self._open()
        if self.descriptor is None and time.monotonic() > self._closed_until:
            # Others may have given back what there was too little of.
            self._is_new = True
            self._open()
        if self.descriptor is None:
            return None
        changed = self._changed()
        if changed is None or self._is_new:
            self._is_new = False
            self._watch()
            return None
        return changed

    def wait(self, timeout_seconds: float) -> bool:
        """Until there is something to look for; False if nothing was within that time. Where nothing is told, look now
        and then."""
        if self.descriptor is None:
            time.sleep(max(0.0, min(timeout_seconds, POLL_SECONDS)))
            return True
        import select

        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, timeout_seconds) * 1000))

    def _open(self) -> None:
        self._closed_until = time.monotonic() + AGAIN_SECONDS
        self._watched = {}
        if self._library is None or not _is_local(self._beneath.root):
            return
        descriptor = int(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self.descriptor = descriptor if descriptor >= 0 else None

    def _watch(self) -> None:
        """Watch every folder there is, each before what is in it: a folder that comes meanwhile is told."""
        before, self._watched = self._watched, {}
        try:
            with self._beneath.folder(LATE, make=True):
                pass
        except (OSError, Unfit):
            pass
        complete = self._add("", _NAMES)
        for path in self._folders:
            complete &= self._add(path, _NAMES if path == HELD else _FILES)
        for path in self._agents():
            complete &= self._add(path, _FILES)
        complete &= self._add(LATE, _LATE)
        if self._bell is not None:
            complete &= self._add(BELL, IN_MODIFY, self._bell)
        for watch in before.keys() - self._watched.keys():
            assert self._library is not None
            self._library.inotify_rm_watch(self.descriptor, watch)
        if not complete:
            self.close()  # more folders than the system lets one watch: then none, and everything is looked at

    def _add(self, path: str, mask: int, place: str | None = None) -> bool:
        """False if it is there and cannot be watched."""
        import ctypes
        import errno

        assert self._library is not None
        full = os.fsencode(place or f"/proc/self/fd/{self._beneath.descriptor}/{path or '.'}")
        watch = int(self._library.inotify_add_watch(self.descriptor, full, mask))
        if watch >= 0:
            self._watched[watch] = path
            return True
        return ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) and place is None

    def _agents(self) -> Iterator[str]:
        try:
            with self._beneath.folder(HELD) as folder, os.scandir(folder.descriptor) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except (OSError, Unfit):
            return
        for name in names:
            yield f"{HELD}/{name}"

    def _changed(self) -> set[str] | None:
        assert self.descriptor is not None
        changed: set[str] = set()
        sure = True
        for _ in range(READS_MAX):
            try:
                events = os.read(self.descriptor, 65536)
            except BlockingIOError:
                return changed if sure else None
            for watch, mask, name in _events(events):
                path = self._watched.get(watch)
                if path is None and not mask & IN_Q_OVERFLOW:
                    continue  # the last words of a watch that was taken down
                if mask & _ALL_IS_UNSURE or path is None:
                    sure = False
                elif path == "":
                    sure = sure and name not in self._folders
                elif path == BELL or (path == LATE and name.endswith(".text")):
                    changed.add(path)
                elif mask & IN_ISDIR or path == HELD or name.startswith(STRAY):
                    sure = False
                elif path != LATE and name.endswith(SUFFIX) and name[0] != ".":
                    changed.add(f"{path}/{name}")
        return None


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    at = 0
    while at < len(data):
        watch = int.from_bytes(data[at : at + 4], _order(), signed=True)
        mask = int.from_bytes(data[at + 4 : at + 8], _order())
        length = int.from_bytes(data[at + 12 : at + 16], _order())
        name = data[at + _HEAD_BYTES : at + _HEAD_BYTES + length].rstrip(b"\0")
        yield watch, mask, os.fsdecode(name)
        at += _HEAD_BYTES + length


def _order() -> Any:
    import sys

    return sys.byteorder


def _library() -> Any:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "inotify_init1") else None


def _is_local(root: str) -> bool:
    return filesystem_type(root) in LOCAL
