"""Saves that came too late: into a file that had given way to ours, or to the place that a file had just left.

An editor that has a file open knows nothing of a claim. What it saves is the person's text as of before; it is put
together with what dibs has written since. If both changed what people write, or it cannot be told where the text
belongs, it is kept in `Conflicts`. It is never dropped.
"""

from __future__ import annotations

from dibs.store.vault import taskfile
from dibs.store.vault.disk import Disk, Raced, Unfit
from dibs.store.vault.folders import CONFLICTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.store.vault.catalog import Entry
    from dibs.store.vault.disk import Stamp

#: How long after a move an editor may still save to the old place; later, it is another file of that name.
LATE_SECONDS = 60.0


def bring_in_late_saves(disk: Disk) -> None:
    """Texts that were saved into files which had given way."""
    for path, was, now in disk.late_saves():
        name = path.rpartition("/")[2]
        place = next((found for found in disk.glance()[0] if found.rpartition("/")[2] == name), None)
        if place is None or not _put_together(disk, place, was, now):
            disk.keep(CONFLICTS, name, now)
        disk.settled(path, now)


def bring_in_copies(disk: Disk, seen: Mapping[str, Stamp], known: Mapping[str, Entry], now: int) -> bool:
    """Files that were saved to where an item's file lay until it was moved; whether there were any."""
    left = {
        entry.was_at: entry
        for entry in known.values()
        if entry.was_at in seen and entry.path in seen and now - (entry.moved_at or 0) < LATE_SECONDS * 1000
    }
    for path, entry in left.items():
        if path is None or path in known:
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
        if was is not None and taskfile.rebased(was.decode(), current.decode()).encode() != current:
            return False
        disk.exchange(place, taskfile.rebased(saved.decode(), current.decode()).encode(), current)
    except (FileNotFoundError, Raced, Unfit, UnicodeDecodeError, taskfile.Unreadable):
        return False
    return True
