"""Late saves: an editor writes into a file that dibs replaced, or to the path from which dibs moved the file.

A replaced file is kept for a minute, because an editor may still have it open. Each is two files in `.dibs/displaced`:
`ID.text` is the file itself (the same inode), and `ID.was` has its content at that time and the content that replaced
it. The ID contains size and mtime, so that a stat shows whether the file was written since. A late save is merged with
the text that dibs wrote meanwhile. If both changed the same lines, or the file of the late save is unknown, it is kept
in `Conflicts`. It is never dropped.
"""

from __future__ import annotations

import os
import time

from dibs.store.vault.layout import CONFLICTS, HIDDEN, name_of
from dibs.store.vault.safe_fs import FILE_BYTES_MAX, TICK_NS, Folder, Raced, SafeRoot, Unfit
from dibs.store.vault.taskfile import task_text
from dibs.system.durable import lease
from dibs.system.renaming import rename
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dibs.store.vault.disk import Disk
    from dibs.store.vault.index import Entry
    from dibs.store.vault.safe_fs import Stamp

FOLDER = f"{HIDDEN}/displaced"
KEEP_SECONDS = 60.0
#: A file that is open for writing is read only after this long without a write: the save may be incomplete.
QUIET_SECONDS = 2.0
#: Two texts and a path.
RECORD_BYTES_MAX = 2 * FILE_BYTES_MAX + 5000


def merge_late_saves(disk: Disk) -> None:
    """Merge what was saved into displaced files."""
    for path, was, saved in disk.late_saves():
        name = name_of(path)
        place = next((found for found in disk.scan_unlocked()[0] if name_of(found) == name), None)
        if place is None or not _merge(disk, place, was, saved):
            disk.keep(CONFLICTS, name, saved)
        disk.settle_late_save(path, saved)


def merge_saves_to_old_paths(disk: Disk, seen: Mapping[str, Stamp], vacated: Mapping[str, Entry]) -> bool:
    """Merge one file that was saved to a path from which its item's file was moved; return whether there was one."""
    for path, entry in vacated.items():
        if path not in seen or entry.path not in seen:
            continue
        try:
            saved, _ = disk.read(path)
        except (FileNotFoundError, Unfit):
            continue
        if not _merge(disk, entry.path, None, saved):
            disk.keep(CONFLICTS, name_of(path), saved)
        try:
            disk.discard(path, saved)
        except (FileNotFoundError, Raced):
            pass  # saved once more: the next scan finds it
        return True
    return False


def _merge(disk: Disk, path: str, was: bytes | None, saved: bytes) -> bool:
    """Merge a late save into the file at `path`; False if the changes overlap with others."""
    try:
        current, _ = disk.read(path)
        text = task_text.rebase(saved.decode(), current.decode(), None if was is None else was.decode())
        if text is None:
            return False
        if text.encode() != current:
            disk.exchange(path, text.encode(), current)
    except (FileNotFoundError, Raced, Unfit, UnicodeDecodeError, task_text.Unreadable):
        return False
    return True


class Record(Value):
    """A displaced file: its path, its content when it was displaced, and the content that replaced it."""

    path: str
    was: bytes
    new: bytes


class DisplacedFiles:
    def __init__(self, root: SafeRoot) -> None:
        self._root = root
        #: Size and mtime of files that were read, found unchanged, and cannot have been written since unnoticed.
        self._read: dict[str, tuple[int, int]] = {}

    def folder(self) -> Folder:
        return self._root.folder(FOLDER, make=True)

    def prepare(self, folder: Folder, temporary: Folder, record: Record, found: os.stat_result) -> str:
        """Prepare to displace the file `found`: return the name at which `record.new` lies, to be exchanged with it."""
        id = _id(found)
        _write_record(folder, id, record)
        # Written elsewhere: an incomplete file here would pass for a late save.
        temporary.write(f"{id}.new", record.new, 0o600, like=found)
        rename((temporary.descriptor, f"{id}.new"), (folder.descriptor, f"{id}.text"))
        return f"{id}.text"

    def forget(self, folder: Folder, name: str) -> None:
        folder.unlink(name)
        self.forget_record(folder, name)

    def forget_record(self, folder: Folder, name: str) -> None:
        folder.unlink(_record_name(name))

    def renew(self, folder: Folder, name: str, record: Record) -> None:
        """Replace the record: from now on, a late save is what differs from `record.was`."""
        id = _id(os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False))
        _write_record(folder, id, record)
        rename((folder.descriptor, name), (folder.descriptor, f"{id}.text"))
        self.forget_record(folder, name)

    def late(self, folder: Folder) -> Iterator[tuple[str, Record | None, bytes | None]]:
        """The files that were written to: name, record (None if it is lost), content (None if it is not readable).

        Remove the other files when they are old and no process has them open for writing.
        """
        now = time.time()
        names = os.listdir(folder.descriptor)
        texts = {name for name in names if name.endswith(".text")}
        for name in names:
            if name.endswith(".was") and f"{name[:-4]}.text" not in texts and _is_old(name, now):
                folder.unlink(name)
        self._read = {name: seen for name, seen in self._read.items() if name in texts}
        for name in sorted(texts):
            if _is_young_and_untouched(folder, name, now) or _displaced_ns(name) is None:
                continue
            found = self._examine(folder, name, now)
            if found is not None:
                yield name, *found

    def _examine(self, folder: Folder, name: str, now: float) -> tuple[Record | None, bytes | None] | None:
        id = name.removesuffix(".text")
        try:
            found = folder.stat(name)
        except FileNotFoundError:
            return None
        except Unfit:
            return _read_record(folder, id), None
        seen = (found.st_size, found.st_mtime_ns)
        if not _is_untouched(name, found) and self._read.get(name) != seen:
            record = _read_record(folder, id)
            if now - found.st_mtime < QUIET_SECONDS and _is_open_for_writing(folder, name) is not False:
                return None
            try:
                data = folder.read(name)[0]
            except Raced:
                return None
            except Unfit:
                return record, None
            if record is None or data not in (record.was, record.new):
                return record, data
            if found.st_mtime_ns + TICK_NS < int(now * 1e9):
                self._read[name] = seen
        if _is_old(name, now) and not _is_open_for_writing(folder, name):
            self.forget(folder, name)
        return None


def _id(found: os.stat_result) -> str:
    return f"{time.time_ns()}-{os.urandom(6).hex()}-{found.st_size}-{max(0, found.st_mtime_ns)}"


def _displaced_ns(name: str) -> int | None:
    """When the file was displaced; None if the name is not one that dibs gives."""
    parts = name.rpartition(".")[0].split("-")
    return int(parts[0]) if len(parts) == 4 and parts[0].isdecimal() else None


def _is_young_and_untouched(folder: Folder, name: str, now: float) -> bool:
    """The quick check: it holds for nearly all of the files, and there may be thousands."""
    try:
        found = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return _is_untouched(name, found) and not _is_old(name, now)


def _is_untouched(name: str, found: os.stat_result) -> bool:
    """Whether size and mtime alone prove that the file was not written since."""
    mtime = found.st_mtime_ns
    if found.st_nlink != 1 or not name.endswith(f"-{found.st_size}-{mtime}.text"):
        return False
    displaced = _displaced_ns(name)
    return displaced is not None and mtime + TICK_NS < displaced


def _is_old(name: str, now: float) -> bool:
    displaced = _displaced_ns(name)
    return displaced is not None and now - displaced / 1e9 > KEEP_SECONDS


def _record_name(name: str) -> str:
    return name.removesuffix(".text") + ".was"


def _write_record(folder: Folder, id: str, record: Record) -> None:
    """Not synced: after a power cut no editor has the file open."""
    path = record.path.encode()
    head = b"%d %d %d\n" % (len(path), len(record.was), len(record.new))
    folder.write(f"{id}.was", b"".join((head, path, record.was, record.new)), 0o600, durable=False)


def _read_record(folder: Folder, id: str) -> Record | None:
    try:
        data = folder.read(f"{id}.was", RECORD_BYTES_MAX)[0]
    except (FileNotFoundError, Unfit, Raced):
        return None
    head, _, rest = data.partition(b"\n")
    try:
        path, was, new = map(int, head.split())
    except ValueError:
        return None
    if len(rest) != path + was + new:
        return None
    return Record(path=rest[:path].decode(), was=rest[path : path + was], new=rest[path + was :])


def _is_open_for_writing(folder: Folder, name: str) -> bool | None:
    """Whether some process has the file open for writing; None if the system cannot tell."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.descriptor)
    try:
        leased = lease(descriptor)
        return None if leased is None else not leased
    finally:
        os.close(descriptor)
