"""Finds files that changed: a scan of all folders by stamps, and the decision whether a scan is needed.

A long-lived process learns from inotify which files were touched. A command does not, but it ends soon, so it relies on
one scan: a later change counts as made after the command, unless it is to the file that the command writes, where it is
detected during the write.
"""

from __future__ import annotations

import os
import time
from binascii import crc32

from dibs.store.vault.layout import HELD, SCANNED, SUFFIX
from dibs.store.vault.safe_fs import FILE_BYTES_MAX, SafeRoot, Stamp, Unfit, printable, why_name_unfit, why_unfit
from dibs.system.renaming import STRAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.store.vault.disk import Disk
    from dibs.store.vault.index import VaultTransaction
    from dibs.store.vault.watch import InotifyWatch

#: For how long a command relies on its scan.
SCAN_VALID_SECONDS = 0.25
#: The interval at which a long-lived process scans all files, to find changes that inotify does not report.
RESCAN_SECONDS = 60.0
#: Small enough that a sum of thousands of checksums fits into an integer of SQLite.
CHECKSUM_MAX = (1 << 48) - 1

_REGULAR, _KIND = 0o100000, 0o170000
_SHORT = 100


class Scan:
    """The stamps of all files, found without opening them. `refused`: entries that are named like task files and cannot
    be read as such, with the reason; `strays`: files that a crash left in the middle of a rename in steps."""

    def __init__(self, root: SafeRoot, folders: Sequence[str] = SCANNED) -> None:
        self.found: dict[str, Stamp] = {}
        self.refused: dict[str, str] = {}
        self.strays: list[tuple[str, str]] = []
        self._root = root
        for path in folders:
            for folder in self.agent_folders() if path == HELD else (path,):
                self._add_folder(folder)

    def agent_folders(self) -> Iterator[str]:
        try:
            with self._root.folder(HELD) as folder, os.scandir(folder.descriptor) as entries:
                inner = [(entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink()) for entry in entries]
        except (FileNotFoundError, PermissionError, Unfit) as error:
            self._refuse(HELD, error)
            return
        for name, is_folder, is_link in sorted(inner):
            why = why_name_unfit(name)
            if name.startswith("."):
                continue
            if is_folder and why is None:
                yield f"{HELD}/{name}"
            elif is_folder or is_link:
                self.refused[f"{HELD}/{printable(name)}"] = why or "is a symbolic link"
            elif name.endswith(SUFFIX):
                self.refused[f"{HELD}/{printable(name)}"] = why or "lies in no agent's folder"

    def _add_folder(self, path: str) -> None:
        found, before = self.found, f"{path}/"
        for name, one in self._files(path):
            found[before + name] = Stamp((one[1], one[6], one.st_mtime_ns, one.st_ctime_ns))

    def _files(self, path: str) -> Iterator[tuple[str, os.stat_result]]:
        # Written for speed, unlike the rest: a scan precedes every write.
        try:
            folder = self._root.folder(path)
        except (FileNotFoundError, PermissionError, Unfit) as error:
            self._refuse(path, error)
            return
        stat = os.stat
        with folder:
            descriptor = folder.descriptor
            names = [name for name in os.listdir(descriptor) if name[-3:] == SUFFIX]
            are_fit = _are_plain(names)
            for name in names:
                if name[0] == ".":
                    if name.startswith(STRAY):
                        self.strays.append((path, name))
                    continue
                try:
                    one = stat(name, dir_fd=descriptor, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if (
                    one[0] & _KIND == _REGULAR
                    and one[3] == 1
                    and one[6] <= FILE_BYTES_MAX
                    and (are_fit or why_name_unfit(name) is None)
                ):
                    yield name, one
                else:
                    why = why_name_unfit(name) or why_unfit(one) or "is being removed"
                    self.refused[f"{path}/{printable(name)}"] = why

    def _refuse(self, path: str, error: Exception) -> None:
        if not isinstance(error, FileNotFoundError):
            self.refused[path] = "is a link or no folder" if isinstance(error, Unfit) else "cannot be opened"


class ChecksumScan(Scan):
    """A scan that keeps only a checksum of all stamps and folders: cheaper than the stamps themselves."""

    def __init__(self, root: SafeRoot, folders: Sequence[str] = SCANNED) -> None:
        self.sum = 0
        super().__init__(root, folders)

    def _add_folder(self, path: str) -> None:
        folder, total = crc32(path.encode()), 0
        for _, one in self._files(path):
            total += hash((folder, one[1], one[6], one.st_mtime_ns, one.st_ctime_ns)) & CHECKSUM_MAX
        self.sum += total


def checksum_of(path: str, stamp: Stamp) -> int:
    """One file's part of the sum. The name need not go into it: a rename changes the ctime."""
    return hash((crc32(path.rpartition("/")[0].encode()), *stamp)) & CHECKSUM_MAX


def met_twice(found: dict[str, Stamp]) -> list[str]:
    """The paths of files that were moved during the scan, and so were met in two folders."""
    if len({stamp[0] for stamp in found.values()}) == len(found):
        return []
    paths_of: dict[int, list[str]] = {}
    for path, stamp in found.items():
        paths_of.setdefault(stamp[0], []).append(path)
    return [path for paths in paths_of.values() if len(paths) > 1 for path in paths]


def subfolders(root: SafeRoot, folders: Sequence[str]) -> list[str]:
    """Folders inside the scanned ones, whose files are not scanned."""
    found = []
    for path in folders:
        for one in Scan(root, ()).agent_folders() if path == HELD else (path,):
            try:
                with root.folder(one) as folder, os.scandir(folder.descriptor) as entries:
                    names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            except (OSError, Unfit):
                continue  # reported as a whole
            found += [f"{one}/{printable(name)}" for name in names if not name.startswith(".")]
    return found


class ScanPolicy:
    """Decides whether the files must be scanned before a decision. `brief`: the process runs a single command."""

    def __init__(self, disk: Disk, *, brief: bool) -> None:
        self._disk = disk
        self._brief = brief
        self._may_watch = not brief
        #: Files that may differ from the index; None: any file may.
        self._suspects: set[str] | None = None
        self._watch: InotifyWatch | None = None
        self._rescanned_at = 0.0
        #: When the files were last found to be as the index has them.
        self._clean_at: float | None = None

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def is_recent(self) -> bool:
        """Whether this is a command that scanned a moment ago."""
        if not self._brief or self._clean_at is None:
            return False
        return time.monotonic() - self._clean_at < SCAN_VALID_SECONDS

    def expire(self) -> None:
        """Forget the last scan, because a file differed from it."""
        self._clean_at = None

    def reset(self) -> None:
        """Forget all that is known of the files, because another index was opened."""
        self._clean_at = self._suspects = None

    def set_long_lived(self) -> None:
        """Do not rely on one scan: this process waits for changes by others, so it is not a brief command."""
        self._brief = False

    def may_differ(self, t: VaultTransaction) -> bool:
        """Whether there may be changes to reconcile, by a scan without the lock."""
        if not self.needs_scan(t):
            return False
        if t.any_missing() or self._disk.checksum_unlocked() != t.checksum():
            return True
        self.mark_clean()
        return False

    def mark_clean(self) -> None:
        """All files are as the index has them."""
        self._clean_at = time.monotonic()
        if self._watch is not None:
            self._suspects = set()

    def needs_scan(self, t: VaultTransaction) -> bool:
        """Whether all files must be scanned: not if inotify reports every change and the touched files are as the
        index has them."""
        touched = self._touched()
        if touched is None or self._suspects is None:
            self._suspects = None
            return True
        self._suspects |= touched
        known = {path: stamp for path in self._suspects if (stamp := t.stamp(path)) is not None}
        seen = {path: stamp for path in self._suspects if (stamp := self._disk.stamp(path)) is not None}
        if known != seen or t.any_missing():
            return True
        self._suspects = set()
        return False

    def _touched(self) -> set[str] | None:
        if not self._may_watch:
            return None
        from dibs.store.vault.watch import LATE_SAVE

        if self._watch is None:
            self._watch = self._disk.watch()
            self._rescanned_at = time.monotonic()
        touched = self._watch.changes()
        if time.monotonic() - self._rescanned_at >= RESCAN_SECONDS:
            self._rescanned_at = time.monotonic()
            return None
        return None if touched is None else touched - {LATE_SAVE}


def _are_plain(names: list[str]) -> bool:
    """Whether no name needs a closer check, by one check of all of them."""
    joined = "".join(names)
    return joined.isascii() and joined.isprintable() and all(map(_SHORT.__gt__, map(len, names)))
