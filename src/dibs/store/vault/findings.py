"""The findings of `dibs doctor` about a vault, each a problem and advice."""

from __future__ import annotations

from dibs.store.vault.layout import CONFLICTS, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    from dibs.store.vault.disk import Disk
    from dibs.store.vault.git.sync import Sync
    from dibs.store.vault.index import Entry

    Finding = tuple[str, str]

#: How many files in Conflicts a finding names.
NAMED_MAX = 5


def of_repository(remote: Sync) -> Iterator[Finding]:
    for what in remote.damage():
        yield f"this clone's git repository is damaged: {what}", "dibs vault sync repairs it from the remote"
    for what in remote.blocked():
        yield f"dibs does not touch {what}", "until that is done, git shows changes that others made"


def of_lost_claims(rows: Iterable[tuple[Any, ...]]) -> Iterator[Finding]:
    for item, agent, holder, token in rows:
        who = f", which {holder} holds under token {token}" if holder else ""
        yield f"{agent} took {item} by a move{who}: another clone's claim was accepted first", "stop that work"


def of_files(disk: Disk, entries: Collection[Entry]) -> Iterator[Finding]:
    seen, unfit = disk.scan_unlocked()
    for path, why in unfit.items():
        yield f"{path}: {why}", "dibs ignores it; repair it, or move it elsewhere"
    for path in disk.subfolders():
        yield f"{path} is a folder, and its files are not items", "move the files up, or the folder elsewhere"
    for entry in entries:
        if entry.problem is not None:
            yield f"{entry.path}: {entry.problem}", "mend the file; dibs reads it again when it changes"
        elif entry.remark is not None:
            yield f"{entry.path}: {entry.remark}", "dibs ignores that; mend the file"
    kept = disk.names_in(CONFLICTS)
    if kept:
        listed = ", ".join(sorted(kept)[:NAMED_MAX]) + (", ..." if len(kept) > NAMED_MAX else "")
        yield f"{len(kept)} in {CONFLICTS}: {listed}", "texts that could not be merged: use what you want, remove them"
    yield from _of_names(seen, {entry.path for entry in entries if entry.item is not None and entry.problem is None})


def _of_names(seen: Iterable[str], items: set[str]) -> Iterator[Finding]:
    names: dict[str, str] = {}
    for path in sorted(seen):
        other = names.setdefault(name_of(path).lower(), path)
        if name_of(other) != name_of(path):
            yield f"{other} and {path} differ by case only", "rename one: some machines take them for one file"
        elif other != path and {other, path} <= items:
            yield f"{other} and {path} have one name", "rename one: neither can move to the other's folder"
