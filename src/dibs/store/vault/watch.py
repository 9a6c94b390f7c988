"""Detects changed files with inotify, and waits for changes of the board and of the files.

With inotify, a long-lived process leaves out the scan before a write if no change was reported. `changes` answers None,
for any file, wherever a report may be missing: at the start, after an overflow, when a folder appears or disappears, in
a forked child, on file systems that other machines write to, and without inotify. inotify does not report writes
through mapped memory, nor writes through a hard link outside the vault. So all files are also scanned every
`scan.RESCAN_SECONDS`, and every write reads the file that it changes.
"""

from __future__ import annotations

import errno
import os
import time

from dibs.store.contract import Watch
from dibs.store.vault import late_saves, scan
from dibs.store.vault.layout import HELD, SCANNED, SUFFIX
from dibs.store.vault.safe_fs import SafeRoot, Unfit
from dibs.system import inotify
from dibs.system.fork import ForkAware
from dibs.system.inotify import IN_ISDIR, IN_MODIFY, IN_Q_OVERFLOW, Inotify
from dibs.system.mounts import filesystem_type
from dibs.system.renaming import STRAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Reported after a write into a displaced file, which may be a late save.
LATE_SAVE = late_saves.FOLDER
#: Reported when the bell was rung.
BELL = "bell"
#: The file systems on which this machine's kernel makes every change, and so reports it.
LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "tmpfs", "overlay", "vfat", "exfat"}
)
#: More buffers than this at once are treated as an overflow.
READS_MAX = 100
#: The interval of polling without inotify.
POLL_SECONDS = 0.25
WAIT_SECONDS_MAX = 0.5
#: The system limits the number of watches; after a refusal, try again after this time.
REOPEN_SECONDS = 5.0


class InotifyWatch(ForkAware):
    def __init__(self, root: SafeRoot, *, folders: Sequence[str] = SCANNED, bell: str | None = None) -> None:
        """`bell` is a file outside the scanned folders whose writes are reported as well."""
        self._root = root
        self._folders = tuple(folders)
        self._bell = bell
        self._watched: dict[int, str] = {}
        self._is_new = True
        self.track_forks()
        self._inotify: Inotify | None = None
        self._reopen()

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def changes(self) -> set[str] | None:
        """The paths that changed since the last call, `LATE_SAVE` and `BELL` among them; None: any file may have."""
        if self.is_inherited:
            # The queue is shared with the parent: an event that is read here would be missing there.
            self.is_inherited = False
            self._reopen()
        if self._inotify is None and time.monotonic() > self._reopen_at:
            self._reopen()
        if self._inotify is None:
            return None
        changed = self._read(self._inotify)
        if changed is None or self._is_new:
            self._is_new = False
            self._watch_folders(self._inotify)
            return None
        return changed

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until there may be changes; False if the time is up. Without inotify, this polls."""
        if self._inotify is None:
            time.sleep(max(0.0, min(timeout_seconds, POLL_SECONDS)))
            return True
        return self._inotify.wait(timeout_seconds)

    def _reopen(self) -> None:
        self.close()
        self._reopen_at = time.monotonic() + REOPEN_SECONDS
        self._watched, self._is_new = {}, True
        if filesystem_type(self._root.root) in LOCAL:
            try:
                self._inotify = Inotify()
            except OSError:
                pass

    def _watch_folders(self, instance: Inotify) -> None:
        """Watch every folder, each before its inner folders, so that a folder which appears meanwhile is reported."""
        before, self._watched = self._watched, {}
        try:
            with self._root.folder(LATE_SAVE, make=True):
                pass
        except (OSError, Unfit):
            pass
        complete = self._add("", inotify.ENTRIES)
        for path in self._folders:
            complete &= self._add(path, inotify.ENTRIES if path == HELD else inotify.ENTRIES_AND_FILES)
        for path in self._agent_folders():
            complete &= self._add(path, inotify.ENTRIES_AND_FILES)
        complete &= self._add(LATE_SAVE, inotify.WRITES)
        if self._bell is not None:
            complete &= self._add(BELL, IN_MODIFY, self._bell)
        for watch in before.keys() - self._watched.keys():
            instance.unwatch(watch)
        if not complete:
            self.close()  # there are more folders than the system lets a process watch: scan instead

    def _add(self, path: str, mask: int, place: str | None = None) -> bool:
        """Watch a path; False if it exists and cannot be watched."""
        assert self._inotify is not None
        try:
            watch = self._inotify.watch(place or f"/proc/self/fd/{self._root.descriptor}/{path or '.'}", mask)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) and place is None
        self._watched[watch] = path
        return True

    def _agent_folders(self) -> Iterator[str]:
        try:
            with self._root.folder(HELD) as folder, os.scandir(folder.descriptor) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except (OSError, Unfit):
            return
        for name in names:
            yield f"{HELD}/{name}"

    def _read(self, instance: Inotify) -> set[str] | None:
        changed: set[str] = set()
        sure = True
        for _ in range(READS_MAX):
            events = instance.read()
            if not events:
                return changed if sure else None
            for watch, mask, name in events:
                path = self._watched.get(watch)
                if path is None and not mask & IN_Q_OVERFLOW:
                    continue  # the last event of a removed watch
                if mask & inotify.LOST or path is None:
                    sure = False
                elif path == "":
                    sure = sure and name not in self._folders
                elif path == BELL or (path == LATE_SAVE and name.endswith(".text")):
                    changed.add(path)
                elif mask & IN_ISDIR or path == HELD or name.startswith(STRAY):
                    sure = False
                elif path != LATE_SAVE and name.endswith(SUFFIX) and name[0] != ".":
                    changed.add(f"{path}/{name}")
        return None


class VaultWatch(Watch):
    """Waits for the bell and for the files: moving a file by hand rings no bell."""

    def __init__(self, bell: Watch, reconcile: Callable[[], None], files: InotifyWatch) -> None:
        self._bell, self._reconcile, self._files = bell, reconcile, files
        self._scanned_at = time.monotonic()
        files.changes()

    def wait(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        while True:
            left = end - time.monotonic()
            self._files.wait(max(0, min(left, WAIT_SECONDS_MAX)))
            if self._bell.wait(0):
                self._files.changes()
                return True
            if self._files.changes() != set() or time.monotonic() - self._scanned_at >= scan.RESCAN_SECONDS:
                self._scanned_at = time.monotonic()
                self._reconcile()  # rings the bell if it finds a change
                if self._bell.wait(0):
                    return True
            if left <= 0:
                return False

    def close(self) -> None:
        self._bell.close()
        self._files.close()
