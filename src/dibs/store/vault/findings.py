"""What a doctor has to say of the files: what looks like a task and is none, and names that are one elsewhere."""

from __future__ import annotations

from dibs.store.vault.layout import CONFLICTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from dibs.store.vault.file_index import Entry

#: How many texts in Conflicts are told by name.
NAMED_MAX = 5
#: What is so, and what to do about it.
Remark = tuple[str, str]


def of_files(
    seen: Iterable[str],
    unfit: Mapping[str, str],
    folders: Iterable[str],
    known: Collection[Entry],
    kept: Collection[str],
) -> Iterator[Remark]:
    for path, why in unfit.items():
        yield f"{path}: {why}", "it is left alone; mend it, or move it elsewhere"
    for path in folders:
        yield f"{path} is a folder: what lies in it is no item", "move the files up, or the folder out of the way"
    for entry in known:
        if entry.problem is not None:
            yield f"{entry.path}: {entry.problem}", "mend the file; it is looked at when it changes"
        elif entry.remark is not None:
            yield f"{entry.path}: {entry.remark}", "the item is as it was without that; mend the file"
    if kept:
        listed = ", ".join(sorted(kept)[:NAMED_MAX]) + (", ..." if len(kept) > NAMED_MAX else "")
        yield f"{len(kept)} in {CONFLICTS}: {listed}", "texts that had no better place: use what you want, remove them"
    yield from _of_names(seen, {entry.path for entry in known if entry.item is not None and entry.problem is None})


def _of_names(seen: Iterable[str], items: set[str]) -> Iterator[Remark]:
    names: dict[str, str] = {}
    for path in sorted(seen):
        name = path.rpartition("/")[2]
        other = names.setdefault(name.lower(), path)
        if other.rpartition("/")[2] != name:
            yield f"{other} and {path} differ by case only", "name one anew: to some machines they are one"
        elif other != path and {other, path} <= items:
            yield f"{other} and {path} have one name", "name one anew: each is in the way of the other"
