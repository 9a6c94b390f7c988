"""Trees, and their three-way merge: the common base, the local tree, the remote's. Pure.

A task is one unit, whatever folder its file is in: a claim here and a claim there, at two paths, are one conflict, and
the remote wins it, since its push was accepted first. Of any other file that was changed on both sides, the local
version stays and the remote's is kept beside it. A change to a file outweighs its removal.
"""

from __future__ import annotations

from dibs.store.vault.git.path_policy import SESSIONS, task_name, why_unfit
from dibs.system.git import fields
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Path to blob; regular files only.
Tree = dict[str, str]
#: The mode of a plain file.
PLAIN = "100644"


class Listing(Value):
    """The entries of a commit: the files, and in `unfit` those that dibs does not touch, as (mode, object, why)."""

    files: Tree
    modes: dict[str, str]
    unfit: dict[str, tuple[str, str, str]]


EMPTY = Listing(files={}, modes={}, unfit={})


class BlobChange(Value):
    """One file goes from `path` (None: it is new) to `to` (None: it is removed), and its blob from `was` to `now`."""

    path: str | None
    to: str | None
    was: str | None
    now: str | None


class Clash(Value):
    """A file that was changed on both sides: blob `local` at path `here`, `remote` at `there`; `base` is the common
    blob, and `moved` is whether the remote moved the file."""

    here: str
    local: str
    there: str
    remote: str
    base: str | None
    task: bool
    moved: bool


class Merged(Value):
    tree: Tree
    clashes: tuple[Clash, ...]
    #: Names of the tasks that the remote changed.
    news: frozenset[str]


def parse_listing(answer: bytes) -> Listing:
    """Parse the output of `git ls-tree -r -z`."""
    files: Tree = {}
    modes: dict[str, str] = {}
    unfit: dict[str, tuple[str, str, str]] = {}
    for part in fields(answer):
        about, _, name = part.partition(b"\t")
        mode, _, blob = about.decode().split()
        path = name.decode(errors="surrogateescape")
        why = why_unfit(path, mode)
        if why is not None:
            unfit[path] = (mode, blob, why)
            continue
        files[path] = blob
        if mode != PLAIN:
            modes[path] = mode
    return Listing(files=files, modes=modes, unfit=unfit)


def merge(bases: Sequence[Tree], local: Tree, remote: Tree) -> Merged:
    """Merge the remote's changes since `bases` into the local tree.

    With several bases, a side is unchanged only if it equals all of them.
    """
    open_keys = {_key(path) for path in _differing(local, remote)}
    groups = [_grouped(tree, open_keys) for tree in (local, remote, *(bases or [{}]))]
    tree, clashes, news = dict(local), [], set()
    for key in sorted(open_keys):
        here, there, *before = (group.get(key, {}) for group in groups)
        kept = _changed_side(before, here, there)
        if there not in before and key.startswith(_TASK):
            news.add(key.removeprefix(_TASK))
        if kept is None:
            kept = there if key.startswith(_TASK) else here
            clashes += _clashes(key, here, there, before)
        for path in here:
            del tree[path]
        tree.update(kept)
    return Merged(tree=tree, clashes=tuple(clashes), news=frozenset(news))


def without_reverts(
    own: Tree, base: Tree, local: Tree, dropped: Tree, history: Callable[[], set[tuple[str, str]]]
) -> Tree:
    """`local`, but with the files of `base` where the user's git has reverted them.

    If a merge by the user fails, git resets the files to the user's last commit (`own`), and so reverts,
    unintentionally, what dibs has written since (`base`). A file counts as reverted only if its path and blob were the
    remote's before (`history`): anything else is the user's change. A missing file counts as reverted if it is one of
    `dropped`, the files that the user's branch used to have.
    """
    keys = {_key(path) for path in _differing(local, base)}
    groups = [_grouped(tree, keys) for tree in (own, base, local, dropped)]
    tree = dict(local)
    for key in keys:
        mine, brought, here, before = (group.get(key, {}) for group in groups)
        known = {*mine.items(), *brought.items()}
        if (
            (here or (before and not mine))
            and mine != brought
            and known.issuperset(here.items())
            and history().issuperset(mine.items())
        ):
            for path in here:
                del tree[path]
            tree.update(brought)
    return tree


def changes(local: Tree, merged: Tree) -> list[BlobChange]:
    """The changes from `local` to `merged`: removals first, then moves and edits, then new files."""
    keys = {_key(path) for path in _differing(local, merged)}
    here, then = _grouped(local, keys), _grouped(merged, keys)
    removals, moves, additions = [], [], []
    for key in sorted(keys):
        old, new = here.get(key, {}), then.get(key, {})
        gone, added = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
        while gone and added:
            path, to = gone.pop(), added.pop()
            moves.append(BlobChange(path=path, to=to, was=old[path], now=new[to]))
        removals += [BlobChange(path=path, to=None, was=old[path], now=None) for path in gone]
        additions += [BlobChange(path=None, to=path, was=None, now=new[path]) for path in added]
        moves += [
            BlobChange(path=path, to=path, was=old[path], now=new[path])
            for path in sorted(old.keys() & new.keys())
            if old[path] != new[path]
        ]
    return removals + moves + additions


_TASK = "\0"


def _key(path: str) -> str:
    """The unit of a merge: all files of one task, or one other file."""
    name = task_name(path)
    return path if name is None else _TASK + name


def _changed_side(before: Sequence[Tree], here: Tree, there: Tree) -> Tree | None:
    """The side that was changed; None if both were."""
    if here == there or all(base == there for base in before):
        return here
    if all(base == here for base in before):
        return there
    if not here or not there:
        return here or there
    return None


def _clashes(key: str, here: Tree, there: Tree, before: Sequence[Tree]) -> list[Clash]:
    """The clashes of one unit. Only a version that is neither in a base nor on the other side could get lost."""
    if key.startswith(f"{SESSIONS}/"):
        return []
    began = [blob for base in before for blob in base.values()]
    path, remote = max(there.items())
    moved = len(there) > 1 or any(base.keys() != there.keys() for base in before)
    return [
        Clash(
            here=at,
            local=blob,
            there=path,
            remote=remote,
            base=began[0] if began else None,
            task=key.startswith(_TASK),
            moved=moved,
        )
        for at, blob in sorted(here.items())
        if not key.startswith(_TASK) or (blob not in began and blob not in there.values())
    ]


def _differing(one: Tree, other: Tree) -> Iterable[str]:
    return (path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def _grouped(tree: Tree, keys: set[str]) -> dict[str, Tree]:
    groups: dict[str, Tree] = {}
    for path, blob in tree.items():
        key = _key(path)
        if key in keys:
            groups.setdefault(key, {})[path] = blob
    return groups
