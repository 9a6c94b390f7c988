"""What a push brings to each ref: the commits that are judged.

A ref is judged by what is new to it. That another ref of the remote has a commit already does not admit the commit:
its claim may have been lost since. `docs/guides/guard.md` says which other refs count for which.
"""

from __future__ import annotations

from dibs.guard import git
from dibs.guard.git import Revisions
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Before the item in the name of its branch.
ITEM_BRANCH_PREFIX = "dibs/"
BRANCHES, TAGS, REMOTES = "refs/heads/", "refs/tags/", "refs/remotes/"
#: All branches and tags but these are protected. The branch of an item has work in progress, and servers make other
#: refs, such as `refs/pull/1/head`, by themselves.
UNPROTECTED = BRANCHES + ITEM_BRANCH_PREFIX


class Update(Value):
    """A ref that a push changes, the object that it has now, and the one that it gets. Zeros stand for none."""

    ref: str
    old: str
    new: str


class Known:
    """What is known of the refs of a repository: its default branch, which counts only if it is protected, and its name
    here, if that is another; options of rev-list for the protected refs, and for every ref."""

    def __init__(
        self, *, default: str | None, protected: Sequence[str], every: Sequence[str], default_here: str | None = None
    ) -> None:
        self.default = default if default is not None and is_protected(default) else None
        self.default_commit = () if self.default is None else git.existing_commits([default_here or self.default])
        self.protected, self.every = protected, every


def is_protected(ref: str) -> bool:
    return ref.startswith((BRANCHES, TAGS)) and not ref.startswith(UNPROTECTED)


def received(updates: Sequence[Update]) -> tuple[Revisions, ...]:
    """The commits that a push brings to the refs of this repository."""
    # Not `--all`, which has the HEAD of every worktree, too.
    protected = (f"--exclude={UNPROTECTED}*", f"--glob={BRANCHES}*", f"--glob={TAGS}*")
    return _brought(updates, lambda: Known(default=git.symbolic_ref("HEAD"), protected=protected, every=("--all",)))


def pushed(updates: Sequence[Update], remote: str, url: str) -> tuple[Revisions, ...]:
    """The commits that a push brings to the refs of a remote, as far as this clone knows it: by what the remote says
    that the refs have, if it is here, and by the remote-tracking branches."""

    def known() -> Known:
        names = git.remotes(remote, url)
        # The `*` of git stands for slashes, too.
        folders = [f"{REMOTES}{name}/" for name in names or ("*",)]
        heads = [(git.symbolic_ref(f"{REMOTES}{name}/HEAD"), f"{REMOTES}{name}/") for name in names]
        head, folder = next((one for one in heads if one[0] is not None), (None, ""))
        return Known(
            default=None if head is None else BRANCHES + head.removeprefix(folder),
            default_here=head,
            protected=tuple(
                option
                for one in folders
                for option in (f"--exclude={one}{ITEM_BRANCH_PREFIX}*", f"--exclude={one}HEAD", f"--glob={one}*")
            ),
            every=tuple(f"--glob={one}*" for one in folders),
        )

    return _brought(updates, known)


def _brought(updates: Sequence[Update], known: Callable[[], Known]) -> tuple[Revisions, ...]:
    here = set(git.existing_commits([sha for one in updates for sha in (one.old, one.new)]))
    # A deletion brings no commit, and a tag of a file does not either.
    bringing = [one for one in updates if one.new in here]
    if not bringing:
        return ()
    repository = known()
    return tuple(_new_to(one, (one.old,) if one.old in here else (), repository) for one in bringing)


def _new_to(update: Update, own: tuple[str, ...], known: Known) -> Revisions:
    """The commits that are new to a ref; `own` is the commit that it has."""
    included = (update.new,)
    if not is_protected(update.ref):
        return Revisions(included=included, excluded=own, options=("--not", *known.every))
    if update.ref == known.default:
        return Revisions(included=included, excluded=own or known.default_commit)
    if own:
        return Revisions(included=included, excluded=(*own, *known.default_commit))
    return Revisions(included=included, options=("--not", *known.protected))
