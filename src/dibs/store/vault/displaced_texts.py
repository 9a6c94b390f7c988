"""Texts that gave way to ours, kept for a while: an editor may have the file open and save into it later.

Each is two files in `.dibs/displaced`: `ID.text`, the very file that lay in the vault, and `ID.was`, what it said then
and what took its place. The ID tells size and mtime it had, so that one look without opening shows whether anybody
wrote since. A text that differs is a late save: somebody's work that is not in the vault.
"""

from __future__ import annotations

import os
import time

from dibs.files.durable import lease
from dibs.store.vault.layout import HIDDEN
from dibs.store.vault.safe_fs import FILE_BYTES_MAX, TEMPORARY, TICK_NS, Beneath, Folder, Raced, Unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = f"{HIDDEN}/displaced"
KEEP_SECONDS = 60.0
#: A save in the middle is let come to its end, unless nothing is written for so long.
QUIET_SECONDS = 2.0
#: Two texts and a path.
RECORD_BYTES_MAX = 2 * FILE_BYTES_MAX + 5000


class Record:
    """What is known of one displaced text: where it lay, what it said, and what was put in its place."""

    def __init__(self, path: str, was: bytes, ours: bytes) -> None:
        self.path = path
        self.was = was
        self.ours = ours


class Displaced:
    def __init__(self, beneath: Beneath) -> None:
        self._beneath = beneath
        #: Size and mtime of those that were read long enough after they had been written.
        self._read: dict[str, tuple[int, int]] = {}

    def folder(self) -> Folder:
        return self._beneath.folder(FOLDER, make=True)

    def prepare(self, folder: Folder, record: Record, found: os.stat_result) -> str:
        """Make ready to displace the file `found`: our text lies at the returned name, to be exchanged with it."""
        id = _id(found)
        _write_record(folder, id, record)
        with self._beneath.folder(TEMPORARY, make=True) as temporary:
            # Written elsewhere: half of it here would be taken for somebody's save.
            temporary.write(f"{id}.new", record.ours, 0o600, like=found)
            at, to = temporary.descriptor, folder.descriptor
            os.rename(f"{id}.new", f"{id}.text", src_dir_fd=at, dst_dir_fd=to)
        return f"{id}.text"

    def forget(self, folder: Folder, name: str) -> None:
        folder.unlink(name)
        folder.unlink(_record_of(name))

    def forget_record(self, folder: Folder, name: str) -> None:
        """The text has been moved elsewhere."""
        folder.unlink(_record_of(name))

    def renew(self, folder: Folder, name: str, record: Record) -> None:
        """From now on it is `record.was` that a late save differs from."""
        id = _id(os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False))
        _write_record(folder, id, record)
        os.rename(name, f"{id}.text", src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
        folder.unlink(_record_of(name))

    def late(self, folder: Folder) -> Iterator[tuple[str, Record | None, bytes | None]]:
        """Those that were written to: name, record (None if it is lost), text (None if it is no readable file).

        The others are removed when they are old enough and nobody has them open to write."""
        now = time.time()
        names = os.listdir(folder.descriptor)
        texts = {name for name in names if name.endswith(".text")}
        for name in names:
            if name.endswith(".was") and f"{name[:-4]}.text" not in texts and _is_old(name, now):
                folder.unlink(name)
        self._read = {name: seen for name, seen in self._read.items() if name in texts}
        for name in sorted(texts):
            if _is_young_and_untouched(folder, name, now) or _made_ns(name) is None:
                continue
            found = self._judged(folder, name, now)
            if found is not None:
                yield name, *found

    def _judged(self, folder: Folder, name: str, now: float) -> tuple[Record | None, bytes | None] | None:
        id = name.removesuffix(".text")
        try:
            found = folder.look(name)
        except FileNotFoundError:
            return None
        except Unfit:
            return _record(folder, id), None
        seen = (found.st_size, found.st_mtime_ns)
        if not _is_as_it_was(name, found) and self._read.get(name) != seen:
            record = _record(folder, id)
            if now - found.st_mtime < QUIET_SECONDS and _is_open_to_write(folder, name) is not False:
                return None
            try:
                text = folder.read(name)[0]
            except Raced:
                return None
            except Unfit:
                return record, None
            if record is None or text not in (record.was, record.ours):
                return record, text
            if found.st_mtime_ns + TICK_NS < int(now * 1e9):
                self._read[name] = seen
        if _is_old(name, now) and not _is_open_to_write(folder, name):
            self.forget(folder, name)
        return None


def _id(found: os.stat_result) -> str:
    return f"{time.time_ns()}-{os.urandom(6).hex()}-{found.st_size}-{max(0, found.st_mtime_ns)}"


def _made_ns(name: str) -> int | None:
    """When it was displaced; None if that is no name of ours."""
    pieces = name.rpartition(".")[0].split("-")
    return int(pieces[0]) if len(pieces) == 4 and pieces[0].isdecimal() else None


def _is_young_and_untouched(folder: Folder, name: str, now: float) -> bool:
    """What holds for nearly all of them, and there may be thousands."""
    try:
        found = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return _is_as_it_was(name, found) and not _is_old(name, now)


def _is_as_it_was(name: str, found: os.stat_result) -> bool:
    """Is it certain, from size and mtime alone?"""
    mtime = found.st_mtime_ns
    if found.st_nlink != 1 or not name.endswith(f"-{found.st_size}-{mtime}.text"):
        return False
    made = _made_ns(name)
    return made is not None and mtime + TICK_NS < made


def _is_old(name: str, now: float) -> bool:
    made = _made_ns(name)
    return made is not None and now - made / 1e9 > KEEP_SECONDS


def _record_of(name: str) -> str:
    return name.removesuffix(".text") + ".was"


def _write_record(folder: Folder, id: str, record: Record) -> None:
    """Not brought to disk: what a crash of the machine may lose, no editor has open any more."""
    path = record.path.encode()
    head = b"%d %d %d\n" % (len(path), len(record.was), len(record.ours))
    folder.write(f"{id}.was", b"".join((head, path, record.was, record.ours)), 0o600, durable=False)


def _record(folder: Folder, id: str) -> Record | None:
    try:
        text = folder.read(f"{id}.was", RECORD_BYTES_MAX)[0]
    except (FileNotFoundError, Unfit, Raced):
        return None
    head, _, rest = text.partition(b"\n")
    try:
        path, was, ours = map(int, head.split())
    except ValueError:
        return None
    if len(rest) != path + was + ours:
        return None
    return Record(rest[:path].decode(), rest[path : path + was], rest[path + was :])


def _is_open_to_write(folder: Folder, name: str) -> bool | None:
    """Does anybody have it open to write? None where that cannot be told."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.descriptor)
    try:
        leased = lease(descriptor)
        return None if leased is None else not leased
    finally:
        os.close(descriptor)
