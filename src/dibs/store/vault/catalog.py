"""What the index knows of the files, as values."""

from __future__ import annotations

from dibs.store.vault.disk import Stamp
from dibs.store.vault.scanning import mark_of
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from dibs.store.vault.transaction import VaultTransaction


#: How long after a move an editor may still save to the old place; later, it is another file of that name.
LATE_SECONDS = 60.0
UNSEEN = Stamp((0, 0, 0, 0))


class Entry(Value):
    """A file as it was last seen. Without an `item` it is none, for the reason that `problem` gives; `remark` is about
    what it says and is not heeded."""

    path: str
    item: str | None
    stamp: Stamp
    problem: str | None = None
    remark: str | None = None
    gone_at: int | None = None


def stamps(rows: Iterable[tuple[Any, ...]]) -> dict[str, tuple[int, ...]]:
    """By path, as a scan gives them."""
    return {row[0]: row[1:] for row in rows}


def entries(rows: Iterable[tuple[Any, ...]]) -> dict[str, Entry]:
    """By path."""
    return {row[0]: _entry(row) for row in rows}


def entry_of(t: VaultTransaction, item: str) -> Entry | None:
    row = t.files("file_of_item", item=item)
    return _entry(row[0]) if row else None


def put(t: VaultTransaction, entry: Entry) -> None:
    """An item has one file: of another one it is only known that it was there, for as long as a save may come late."""
    if entry.item is not None:
        t.files("leave", item=entry.item, path=entry.path, now=t.now)
        t.files("come_back", path=entry.path)
        t.files("forget_left", before=t.now - int(LATE_SECONDS * 1000))
        t.files("forget_file_of_item", item=entry.item)
    inode, size, mtime_ns, ctime_ns = entry.stamp
    t.files(
        "put_file",
        path=entry.path,
        item=entry.item,
        inode=inode,
        size=size,
        mtime_ns=mtime_ns,
        ctime_ns=ctime_ns,
        problem=entry.problem,
        remark=entry.remark,
        gone_at=entry.gone_at,
        mark=0 if entry.stamp == UNSEEN else mark_of(entry.path, entry.stamp),
    )


def left(t: VaultTransaction) -> dict[str, Entry]:
    """Where files lay until lately, and where they are now. Of an item that is over, a file there is a new one, unless
    it lay with its holder."""
    found = {path: entry_of(t, item) for path, item in t.files("left")}
    return {path: entry for path, entry in found.items() if entry is not None}


def forget(t: VaultTransaction, entry: Entry) -> None:
    t.files("forget_file", path=entry.path)
    t.files("forget_claim_told", item=entry.item)


def claim_told(t: VaultTransaction, item: str) -> str | None:
    """The mark of the claim that another program's block in the item's file told of at the last look."""
    row = t.files("claim_told", item=item)
    return row[0][0] if row else None


def note_claim(t: VaultTransaction, item: str, mark: str) -> None:
    t.files("put_claim_told", item=item, mark=mark)


def _entry(row: tuple[Any, ...]) -> Entry:
    path, item, *stamp = row[:6]
    fields = zip(("problem", "remark", "gone_at"), row[6:], strict=True)
    return Entry.of({"path": path, "item": item, "stamp": Stamp(stamp), **dict(fields)})
