"""Saves that came too late: into a file that had given way to ours, or to the place that a file had just left.

An editor that has a file open knows nothing of a claim. What it saves is the person's text as of before; it is put
together with what dibs has written since. If both changed what people write, or it cannot be told where the text
belongs, it is kept in `Conflicts`. It is never dropped.
"""

from __future__ import annotations

from dibs.store.vault.disk import Disk, Raced, Unfit
from dibs.store.vault.layout import CONFLICTS
from dibs.store.vault.taskfile import task_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.store.vault.disk import Stamp
    from dibs.store.vault.file_index import Entry


def bring_in_late_saves(disk: Disk) -> None:
    """Texts that were saved into files which had given way."""
    for path, was, now in disk.late_saves():
        name = path.rpartition("/")[2]
        place = next((found for found in disk.glance()[0] if found.rpartition("/")[2] == name), None)
        if place is None or not _put_together(disk, place, was, now):
            disk.keep(CONFLICTS, name, now)
        disk.settled(path, now)


def bring_in_copies(disk: Disk, seen: Mapping[str, Stamp], left: Mapping[str, Entry]) -> bool:
    """Files that were saved to where an item's file lay until it was moved; whether there were any."""
    for path, entry in left.items():
        if path not in seen or entry.path not in seen:
            continue
        try:
            saved, _ = disk.read(path)
        except (FileNotFoundError, Unfit):
            continue
        if not _put_together(disk, entry.path, None, saved):
            disk.keep(CONFLICTS, path.rpartition("/")[2], saved)
        try:
            disk.discard(path, saved)
        except (FileNotFoundError, Raced):
            pass  # saved once more: it is looked at again
        return True
    return False


def _put_together(disk: Disk, place: str, was: bytes | None, saved: bytes) -> bool:
    """Put a late save into the file it was meant for, unless somebody else changed what it changes."""
    try:
        current, _ = disk.read(place)
        text = task_text.rebased(saved.decode(), current.decode(), None if was is None else was.decode())
        if text is None:
            return False
        if text.encode() != current:
            disk.exchange(place, text.encode(), current)
    except (FileNotFoundError, Raced, Unfit, UnicodeDecodeError, task_text.Unreadable):
        return False
    return True
