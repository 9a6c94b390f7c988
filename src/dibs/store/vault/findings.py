"""The findings of `dibs doctor` about a vault, each a problem and advice."""

from __future__ import annotations

from dibs.store.vault.layout import CONFLICTS, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from dibs.store.vault.disk import Disk
    from dibs.store.vault.git.sync import Sync

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


def of_files(
    disk: Disk, noted: Iterable[tuple[str, str | None, str | None]], is_item: Callable[[str], bool]
) -> Iterator[Finding]:
    """`noted` are path, problem and remark of the files that have one; `is_item` says of a path whether the file there
    is that of an item and readable."""
    seen, unfit = disk.scan_unlocked()
    for path, why in unfit.items():
        yield f"{path}: {why}", "dibs ignores it; repair it, or move it elsewhere"
    for path in disk.subfolders():
        yield f"{path} is a folder, and its files are not items", "move the files up, or the folder elsewhere"
    for path, problem, remark in noted:
        if problem is not None:
            yield f"{path}: {problem}", "mend the file; dibs reads it again when it changes"
        else:
            yield f"{path}: {remark}", "dibs ignores that; mend the file"
    kept = disk.names_in(CONFLICTS)
    if kept:
        listed = ", ".join(sorted(kept)[:NAMED_MAX]) + (", ..." if len(kept) > NAMED_MAX else "")
        yield f"{len(kept)} in {CONFLICTS}: {listed}", "texts that could not be merged: use what you want, remove them"
    yield from _of_names(seen, is_item)


def _of_names(seen: Iterable[str], is_item: Callable[[str], bool]) -> Iterator[Finding]:
    names: dict[str, str] = {}
    for path in sorted(seen):
        other = names.setdefault(name_of(path).lower(), path)
        if name_of(other) != name_of(path):
            yield f"{other} and {path} differ by case only", "rename one: some machines take them for one file"
        elif other != path and is_item(other) and is_item(path):
            yield f"{other} and {path} have one name", "rename one: neither can move to the other's folder"
