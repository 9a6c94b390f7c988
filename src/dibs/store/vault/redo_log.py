"""The redo log of the folders: where dibs left each file and what it wrote there, until the folders are on the disk.

A write syncs the new text of a file, and then the index, which has the log. It does not sync the folders: after a power
cut, a file may be where it was before, or have the text that it had before. The first look of a process that finds
files unlike the index brings them to the state in the log. A change by somebody else stays, because it gave the file a
later ctime. After `ITEMS_MAX` items, one write syncs the folders of all of them and empties the log.
"""

from __future__ import annotations

from binascii import crc32

from dibs.store.sql import rows
from dibs.store.vault.layout import CONFLICTS, name_of
from dibs.store.vault.safe_fs import Raced, Unfit
from dibs.system.owner import boot_id
from dibs.text import json_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.store.vault.disk import Disk
    from dibs.store.vault.index import VaultTransaction
    from dibs.store.vault.plan import Change
    from dibs.store.vault.safe_fs import Stamp

#: The number of items in the log, of writes to one item, and the size of a text. Beyond these, folders are synced.
ITEMS_MAX = 64
WRITES_MAX = 32
TEXT_BYTES_MAX = 32_000
#: The `changed_ns` of a file that is being brought back: no change counts as a later one, since that may be our own.
REPLAYING = (1 << 63) - 1


class Redo(Value):
    """The file of `item` as dibs left it, with its inode and ctime. `earlier` has path, size and checksum of each state
    that the file had since its folders were synced. `boot`: when that was, or empty if the system does not say."""

    item: str
    path: str
    text: bytes
    inode: int
    changed_ns: int
    boot: str
    earlier: list[list[str | int]]

    @property
    def places(self) -> list[str]:
        """All paths at which the file may be, the latest first."""
        return list(dict.fromkeys([self.path, *(str(path) for path, *_ in reversed(self.earlier))]))

    def knows(self, text: bytes) -> bool:
        """Whether nothing is lost with this text: dibs has read it before, or a power cut left it without content."""
        return not text.strip(b"\0") or _mark(text) in [mark for _, *mark in self.earlier]


class RedoLog:
    def __init__(self, t: VaultTransaction, disk: Disk) -> None:
        self.t, self.disk = t, disk

    def covers(self, plan: Sequence[Change]) -> bool:
        """Whether the log can bring back all of a plan, so that no folder has to be synced for it."""
        return (
            all(_is_covered(change) for change in plan)
            and self.disk.touched <= folders_of(plan)
            and self.t.query("redo_count")[0][0] + len(plan) <= ITEMS_MAX
        )

    def put(self, change: Change, stamp: Stamp) -> bool:
        """Log a change that was applied; False if folders must be synced, because there were too many."""
        assert change.path is not None
        assert change.entry is not None
        item = change.entry.item
        row = self.t.query("redo_states", item=item)
        earlier = [*(rows.loads(row[0][0]) if row else ()), [change.path, *_mark(change.was)]]
        self.t.query(
            "put_redo",
            item=item,
            path=change.to,
            text=change.new,
            inode=stamp[0],
            changed_ns=stamp[3],
            boot=this_boot(),
            earlier=json_text.dumps(earlier),
        )
        return len(earlier) <= WRITES_MAX

    def settle(self) -> None:
        """Sync all folders that changed, also by logged changes of other processes, and empty the log."""
        paths = [
            path
            for to, earlier in self.t.query("redo_paths")
            for path in (to, *(path for path, *_ in rows.loads(earlier)))
        ]
        self.disk.sync({_folder(path) for path in paths})
        self.t.query("forget_redo")

    def find_lost(self, seen: Mapping[str, Stamp]) -> list[Redo]:
        """The logged changes that are not in the files, of which a scan found `seen`."""
        inodes = {stamp[0] for stamp in seen.values()}
        redos = [_redo(row) for row in self.t.query("redo")]
        return [redo for redo in redos if self._is_lost(redo, seen, inodes)]

    def mark_lost(self, lost: Iterable[Redo]) -> None:
        for redo in lost:
            self.t.query("mark_redo", item=redo.item, changed_ns=REPLAYING)

    def replay(self, lost: Iterable[Redo]) -> None:
        """Bring the files to their logged states, durably."""
        for redo in lost:
            try:
                self._replay(redo)
            except FileNotFoundError as error:
                raise Raced(redo.path) from error
            except (FileExistsError, Unfit):
                continue  # somebody put something else there
            entry = self.t.entry_of(redo.item)
            stamp = self.disk.stamp(redo.path)
            if entry is not None and entry.path == redo.path and stamp is not None:
                self.t.put_entry(entry.replace(stamp=stamp))
        self.settle()

    def _is_lost(self, redo: Redo, seen: Mapping[str, Stamp], inodes: set[int]) -> bool:
        entry = self.t.entry_of(redo.item)
        if entry is None:
            return False
        place = next((path for path in redo.places if path in seen), None)
        if place is None:
            # Removed or renamed by somebody, unless the machine went down before the file itself was on the disk.
            is_renamed = entry.path in seen or redo.inode in inodes
            return redo.boot != this_boot() and not is_renamed and not self.disk.exists(redo.path)
        stamp = seen[place]
        if stamp[3] > redo.changed_ns:
            return False
        if place != redo.path:
            return True
        if (stamp[0], stamp[3]) == (redo.inode, redo.changed_ns):
            return False
        try:
            return self.disk.read(place)[0] != redo.text
        except (FileNotFoundError, Raced, Unfit):
            return False

    def _replay(self, redo: Redo) -> None:
        place = next((path for path in redo.places if self.disk.stamp(path) is not None), None)
        if place is None:
            self.disk.create(redo.path, redo.text)
            return
        text, _ = self.disk.read(place)
        if place != redo.path:
            self.disk.move(place, redo.path)
        if text != redo.text:
            if not redo.knows(text):
                self.disk.keep(CONFLICTS, name_of(redo.path), text)
            self.disk.exchange(redo.path, redo.text, text)


_boot: list[str] = []


def this_boot() -> str:
    """The boot of the machine; empty if the system does not say. It does not change while a process lives."""
    if not _boot:
        _boot.append(boot_id() or "")
    return _boot[0]


def folders_of(plan: Iterable[Change]) -> set[str]:
    return {_folder(path) for change in plan for path in (change.path, change.to) if path is not None}


def _is_covered(change: Change) -> bool:
    return (
        change.path is not None
        and change.entry is not None
        and change.keep is None
        and len(change.new) <= TEXT_BYTES_MAX
    )


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _mark(text: bytes) -> list[str | int]:
    return [len(text), crc32(text)]


def _redo(row: tuple[object, ...]) -> Redo:
    fields = dict(zip(Redo._fields, row, strict=True))
    return Redo.of({**fields, "earlier": rows.loads(str(fields["earlier"]))})
