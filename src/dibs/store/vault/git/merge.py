"""Three trees become one: what both sides had, what is here, what the remote has. Pure; blobs are only names.

A task is one thing wherever its file lies: a claim here and a claim there, at two paths, are one conflict, and the
remote decides it, since its push was accepted first. Of any other file that was changed on both sides, the local one
stays and the remote's text is kept beside it. To remove a file never outweighs a change to it.
"""

from __future__ import annotations

from dibs.store.vault.git.path_policy import SESSIONS, task_name
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Path to blob; regular files only.
Tree = dict[str, str]


class Change(Value):
    """What happens to one file here: from `path` to `to` (none: it is new, it goes), from blob `was` to `now`."""

    path: str | None
    to: str | None
    was: str | None
    now: str | None


class Clash(Value):
    """Changed on both sides: the blob `local` at `here`, `remote` at `there`; `base` is what both began with, and
    `moved` whether the remote has it in another place than that."""

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


def merge(bases: Sequence[Tree], local: Tree, remote: Tree) -> Merged:
    """Bring the remote's changes since `bases` into the local tree.

    Of several bases nobody knows which one counts: a side is unchanged only if it is like all of them.
    """
    open_keys = {_key(path) for path in _differing(local, remote)}
    groups = [_grouped(tree, open_keys) for tree in (local, remote, *(bases or [{}]))]
    tree, clashes, news = dict(local), [], set()
    for key in sorted(open_keys):
        here, there, *before = (group.get(key, {}) for group in groups)
        kept = _decided(before, here, there)
        if there not in before and key.startswith(_TASK):
            news.add(key.removeprefix(_TASK))
        if kept is None:
            kept = there if key.startswith(_TASK) else here
            clashes += _clashes(key, here, there, before)
        for path in here:
            del tree[path]
        tree.update(kept)
    return Merged(tree=tree, clashes=tuple(clashes), news=frozenset(news))


def put_back(own: Tree, base: Tree, local: Tree, lost: Tree, was: Callable[[], set[tuple[str, str]]]) -> Tree:
    """`local`, but for what the person's git has put back there, to what their branch still says.

    A merge of theirs that fails resets the files to their last commit (`own`). What was brought here since (`base`) is
    gone by that, without anybody having meant it. Only what the remote had before (`was`: paths and blobs) is taken for
    such: all else is the person's. A file that is not there is taken for such if it is one of `lost`, which
    their branch had and has no more.
    """
    keys = {_key(path) for path in _differing(local, base)}
    groups = [_grouped(tree, keys) for tree in (own, base, local, lost)]
    tree = dict(local)
    for key in keys:
        mine, brought, here, before = (group.get(key, {}) for group in groups)
        known = {*mine.items(), *brought.items()}
        if (
            (here or (before and not mine))
            and mine != brought
            and known.issuperset(here.items())
            and was().issuperset(mine.items())
        ):
            for path in here:
                del tree[path]
            tree.update(brought)
    return tree


def changes(local: Tree, merged: Tree) -> list[Change]:
    """What to do to the files here, so that they are as merged: what goes first, then what moves, then what is new."""
    keys = {_key(path) for path in _differing(local, merged)}
    here, then = _grouped(local, keys), _grouped(merged, keys)
    goes, moves, comes = [], [], []
    for key in sorted(keys):
        old, new = here.get(key, {}), then.get(key, {})
        gone, come = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
        while gone and come:
            path, to = gone.pop(), come.pop()
            moves.append(Change(path=path, to=to, was=old[path], now=new[to]))
        goes += [Change(path=path, to=None, was=old[path], now=None) for path in gone]
        comes += [Change(path=None, to=path, was=None, now=new[path]) for path in come]
        moves += [
            Change(path=path, to=path, was=old[path], now=new[path])
            for path in sorted(old.keys() & new.keys())
            if old[path] != new[path]
        ]
    return goes + moves + comes


_TASK = "\0"


def _key(path: str) -> str:
    """What decides together: all files of one task, or one other file."""
    name = task_name(path)
    return path if name is None else _TASK + name


def _decided(before: Sequence[Tree], here: Tree, there: Tree) -> Tree | None:
    """The side that counts; none if both were changed."""
    if here == there or all(base == there for base in before):
        return here
    if all(base == here for base in before):
        return there
    if not here or not there:
        return here or there
    return None


def _clashes(key: str, here: Tree, there: Tree, before: Sequence[Tree]) -> list[Clash]:
    """Of what is not kept, only what is new can get lost."""
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
