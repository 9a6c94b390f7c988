"""A clone of the vault: its files, its repository, and the user's branch, into which the remote's changes are merged.

Files are changed one by one with the care of `disk`; never by a merge, checkout or reset of git. The caller holds the
board's lock.
"""

from __future__ import annotations

from functools import cache

from dibs.model import Synced
from dibs.store.vault.git.apply import TreeApplication
from dibs.store.vault.git.merge import EMPTY, Merged, merge, without_reverts
from dibs.store.vault.git.path_policy import folders_above
from dibs.store.vault.git.repository import SYNC_STEPS
from dibs.store.vault.git.user_git import UserIndex
from dibs.store.vault.git.worktree import WorkTree, WorkTreeFiles
from dibs.system import progress
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.store.vault.git.merge import Listing, Tree
    from dibs.store.vault.git.repository import Refs, Repository


class View(Value):
    """The work tree as a tree. `absent` are paths in it that are not on disk, because they cannot be."""

    tree: Tree
    absent: frozenset[str]


class Clone:
    def __init__(self, root: str, repository: Repository) -> None:
        self.repository = repository
        self.files = WorkTreeFiles(root)
        self.index = UserIndex(repository.git, repository.git_dir)
        self.worktree = WorkTree(self.files, repository.git, repository.algorithm)
        #: Whether the user's branch could not follow, because the user's git moved it meanwhile.
        self.branch_moved = False

    def look(self, refs: Refs, base: Listing) -> View:
        """The work tree. A path that cannot be on disk counts as unchanged."""
        repository = self.repository
        mine = repository.listing(refs.head)
        is_ahead = refs.head is not None and (refs.base is None or repository.is_ancestor(refs.base, refs.head))
        skipped = repository.state.skipped()
        # An untracked file of the user must not be pushed because a skipped file of the remote has the same path.
        theirs = {path: blob for path, blob in base.files.items() if path not in skipped}
        tracked = mine.files if is_ahead else {**theirs, **mine.files}
        found = self.worktree.look(tracked)
        missing = (base.files.keys() | mine.files.keys()) - found.tree.keys()
        absent = _covered(missing, found.unfit, found.tree) | (missing & skipped)
        common = repository.merge_bases(refs.head, refs.base) if absent else []
        began = repository.listing(common[0] if common else None).files
        tree = dict(found.tree)
        for path in absent:
            own = mine.files.get(path)
            stays = base.files.get(path) if own == began.get(path) else own
            if stays is not None:
                tree[path] = stays
        return View(tree=tree, absent=frozenset(absent))

    def follow(self, refs: Refs, commit: str | None, absent: frozenset[str], updates: str) -> None:
        """Apply ref updates of dibs; move the user's branch and index to `commit` as well, if the files on disk are
        those of `commit`."""
        repository, state = self.repository, self.repository.state
        if commit is not None and commit != refs.head and self._may_follow(refs, commit, absent):
            if self.index.follow(commit, refs.head, updates + repository.ref_updates(got=commit)):
                state.set_branch_behind(False)
                return
            self.branch_moved = True
        if commit is None or (refs.head is not None and repository.is_ancestor(commit, refs.head)):
            state.set_branch_behind(False)
            updates += repository.ref_updates(got=commit if commit != refs.got else None)
        elif updates:
            state.set_branch_behind(True)
        repository.update_refs(updates)

    def _may_follow(self, refs: Refs, commit: str, absent: frozenset[str]) -> bool:
        repository = self.repository
        mine, then = repository.listing(refs.head), repository.listing(commit)
        if mine.unfit != then.unfit or any(mine.files.get(path) != then.files.get(path) for path in absent):
            return False
        return refs.head is None or repository.is_ancestor(refs.head, commit)

    # The remote's changes

    def merge_remote(self, refs: Refs) -> Synced:
        """Merge what was fetched into the work tree."""
        progress.report("merging", 3, SYNC_STEPS)
        repository = self.repository
        if not has_news(refs):
            self.restore_reverted()
            # A pending commit may still arrive, as long as the remote has not moved on.
            self.follow(refs, refs.base, frozenset(repository.state.skipped()), "")
            return Synced(commit=refs.base)
        theirs = repository.listing(refs.hub)
        bases = [repository.listing(commit) for commit in self._merge_bases(refs)]
        view = self.look(refs, bases[0] if bases else EMPTY)
        merged = merge([base.files for base in bases], self.without_reverts(refs, view.tree), theirs.files)
        application = TreeApplication(self.files, repository, self.worktree, view.absent)
        application.apply(view.tree, merged)
        absent = view.absent | application.skipped
        repository.state.skip(absent & theirs.files.keys())
        self.follow(refs, refs.hub, absent, repository.ref_updates(base=refs.hub, drop=refs.pending_names))
        return Synced(
            commit=refs.hub,
            news=tuple(sorted(name.removesuffix(".md") for name in merged.news)),
            conflicts=tuple(application.conflicts),
            findings=tuple(application.findings + _unfit_news(bases, theirs)),
        )

    def _merge_bases(self, refs: Refs) -> list[str]:
        """The newest commits that both the work tree and the remote contain.

        `base` is one of them even if the remote has rewritten its history: the work tree was brought to it.
        """
        repository, hub = self.repository, refs.hub
        assert hub is not None
        common = [commit for commit in refs.pending if repository.is_ancestor(commit, hub)]
        if refs.base is not None:
            common.append(refs.base)
        if refs.head != refs.base:
            common += repository.merge_bases(refs.head, hub)
        return repository.newest(common)

    # If a merge by the user fails, git resets the files to the user's last commit and so reverts later changes by dibs.

    def restore_reverted(self) -> bool:
        """Bring back the files that the user's git has reverted; return whether there were any."""
        repository, refs = self.repository, self.repository.refs()
        if not self._may_be_reverted(refs):
            return False
        view = self.look(refs, repository.listing(refs.base))
        restored = self.without_reverts(refs, view.tree)
        if restored == view.tree:
            return False
        application = TreeApplication(self.files, repository, self.worktree, view.absent)
        application.apply(view.tree, Merged(tree=restored, clashes=(), news=frozenset()))
        if not repository.state.branch_is_behind():
            # The branch was reset as well. Until it follows again, git would revert the files again.
            self.follow(refs, refs.base, view.absent | application.skipped, "")
        return True

    def without_reverts(self, refs: Refs, tree: Tree) -> Tree:
        """The tree as it would be without the reverts of the user's git."""
        repository = self.repository
        if not self._may_be_reverted(refs):
            return tree
        own, theirs = repository.listing(refs.head).files, repository.listing(refs.base).files
        dropped: Tree = {}
        if refs.got is not None and refs.head is not None and repository.is_ancestor(refs.head, refs.got):
            # Git removes only files that the branch used to track and no longer does.
            dropped = repository.listing(refs.got).files
        common = repository.merge_bases(refs.head, refs.base)
        history = cache(lambda: repository.history(common[0] if common else None, refs.base))
        return without_reverts(own, theirs, tree, dropped, history)

    def _may_be_reverted(self, refs: Refs) -> bool:
        """Whether the user's branch has not reached `base` yet, or was reset to before it."""
        repository = self.repository
        was_reset = refs.got is not None and refs.head is not None and not repository.is_ancestor(refs.got, refs.head)
        return was_reset or repository.state.branch_is_behind()


def has_news(refs: Refs) -> bool:
    """Whether the remote has a commit that was not merged here."""
    return refs.hub is not None and refs.hub != refs.base


def _covered(paths: Iterable[str], unfit: Iterable[str], tree: Iterable[str]) -> set[str]:
    """The paths at which, or above which, there is something that dibs does not touch."""
    blocking = {*unfit, *tree}
    return {path for path in paths if path in blocking or any(above in blocking for above in folders_above(path))}


def _unfit_news(bases: list[Listing], theirs: Listing) -> list[str]:
    known = {(path, *entry) for base in bases for path, entry in base.unfit.items()}
    return [f"{path!r} is {entry[2]}" for path, entry in theirs.unfit.items() if (path, *entry) not in known]
