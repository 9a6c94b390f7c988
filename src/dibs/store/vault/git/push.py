"""Pushes a clone's changes on top of exactly the remote commit on which they were decided.

The remote must still have `base`, the commit that the work tree was last brought up to; otherwise nothing is pushed
(Rejected). The pushed commit is usually one that dibs makes: if the remote already has the commit, which may be so for
a commit of the user's, git reports success without comparing `base`.
"""

from __future__ import annotations

from dibs.store.vault.disk import Raced
from dibs.store.vault.git.apply import with_tokens_of
from dibs.store.vault.git.path_policy import task_name
from dibs.store.vault.git.repository import BLOB_BYTES_MAX, SYNC_STEPS, Refs, Rejected, Unreachable
from dibs.system import progress
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.store.vault.git.clone import Clone, View
    from dibs.store.vault.git.merge import Tree

#: With more pending commits than this, dibs finds out which of them have arrived before it makes another.
PENDING_MAX = 100
#: How many tasks a commit message names.
NAMES_MAX = 10


class Pushed(Value):
    """The commit that the remote has. `is_new`: it was pushed now; `is_newest`: the remote has no later one. `refs` and
    `absent` are as they were before."""

    commit: str | None
    is_new: bool
    is_newest: bool = True
    refs: Refs
    absent: frozenset[str]


class Pusher:
    def __init__(self, clone: Clone) -> None:
        self._clone = clone
        self._contents: Mapping[str, bytes | None] = {}

    def push_everything(self) -> Pushed:
        """Push the work tree and the user's commits. The user's branch follows."""
        progress.report("pushing", 4, SYNC_STEPS)
        return self._push(lambda refs, view: view.tree, everything=True)

    def push_decision(self, contents: Mapping[str, bytes | None]) -> Pushed:
        """Push the tasks as they are on disk, changed by `contents`, which are not on disk yet: path to content, or
        None to remove the file. All other files are pushed as they were committed: what the user has not committed may
        be incomplete, and git would have to merge it."""
        self._contents = contents
        try:
            return self._push(lambda refs, view: self._with_contents(self._with_tasks_only(refs, view.tree)))
        finally:
            self._contents = {}

    def push_commits(self) -> Pushed:
        """Push the user's commits on top of what was confirmed, without the work tree, which the user's git may be
        changing just now."""
        return self._push(lambda refs, view: self._joined(refs))

    def _push(self, choose: Callable[[Refs, View], Tree], *, everything: bool = False) -> Pushed:
        clone, repository, refs = self._clone, self._clone.repository, self._clone.repository.refs()
        if refs.hub != refs.base or (refs.hub is None and not self._is_new_branch()):
            raise Rejected("its changes are not merged here yet")
        base, mine = repository.listing(refs.base), repository.listing(refs.head)
        view = clone.look(refs, base)
        if clone.without_reverts(refs, view.tree) != view.tree:
            raise Rejected("git has reverted files here")
        self._require_tokens(base.files, view)
        tree, extra = choose(refs, view), self._unfit_changes(refs)
        has_head = refs.head is None or (refs.base is not None and repository.is_ancestor(refs.head, refs.base))
        if everything and has_head and not extra and tree == base.files:
            clone.follow(refs, refs.base, view.absent, "")
            return Pushed(commit=refs.base, is_new=False, refs=refs, absent=view.absent)
        if len(refs.pending) > PENDING_MAX:
            refs = self._drop_old_pending(refs)
        is_ahead = refs.base is None or (refs.head is not None and repository.is_ancestor(refs.base, refs.head))
        if everything and not has_head and is_ahead and not extra and tree == mine.files:
            assert refs.head is not None
            commit, name = refs.head, repository.add_pending(refs.head)
        else:
            parents = [parent for parent in (refs.base, None if has_head else refs.head) if parent is not None]
            commit, name = repository.commit(parents, tree, extra, _message(base.files, tree), self._data)
        hub = self._send(commit, refs.base)
        updates = repository.ref_updates(base=commit, hub=hub, drop=[*refs.pending_names, name])
        if everything:
            clone.follow(refs, commit, view.absent, updates)
        else:
            # Until the decision is on disk, files that lack it were not reverted.
            repository.state.set_branch_behind(False)
            repository.update_refs(updates)
        return Pushed(commit=commit, is_new=True, is_newest=hub == commit, refs=refs, absent=view.absent)

    def _drop_old_pending(self, refs: Refs) -> Refs:
        """Drop the older half of the pending refs, if the remote still has `base`: then none of them has arrived."""
        repository = self._clone.repository
        repository.fetch()
        if repository.refs().hub != refs.base:
            raise Rejected("an earlier push has arrived, or another clone's")
        repository.update_refs(repository.ref_updates(drop=refs.pending_names[: -PENDING_MAX // 2]))
        return repository.refs()

    def _require_tokens(self, base: Tree, view: View) -> None:
        """If a task file has a lower token than the remote's, write the remote's token into it and raise Raced. A
        program overwrote the text of dibs, or moved the file before an accepted push was written into it."""
        repository, worktree = self._clone.repository, self._clone.worktree
        before = {task_name(path): blob for path, blob in base.items()}
        here = {task_name(path): (path, blob) for path, blob in view.tree.items() if path not in view.absent}
        changed = [name for name in before.keys() & here.keys() if name and before[name] != here[name][1]]
        texts = repository.texts_up_to(BLOB_BYTES_MAX, [before[name] for name in changed])
        for name in changed:
            path, blob = here[name]
            local = worktree.data(path, blob)
            complete = with_tokens_of(texts.get(before[name], b""), local, path)
            if complete is not None:
                self._clone.files.exchange(path, complete, local)
                raise Raced(path)

    def _with_contents(self, tree: Tree) -> Tree:
        tree = {path: blob for path, blob in tree.items() if path not in self._contents}
        blob_of = self._clone.worktree.blob_of
        return {**tree, **{path: blob_of(data) for path, data in self._contents.items() if data is not None}}

    def _data(self, path: str, blob: str) -> bytes:
        data = self._contents.get(path)
        return self._clone.worktree.data(path, blob) if data is None else data

    def _with_tasks_only(self, refs: Refs, tree: Tree) -> Tree:
        """The tasks of the tree, and all other files as they were committed."""
        chosen: Tree = {}
        own, theirs, began = self._committed(refs)
        for path in own.keys() | theirs.keys() | tree.keys():
            mine, base, then = own.get(path), theirs.get(path), began.get(path)
            if task_name(path) is not None or (mine != base and then not in (mine, base)):
                blob = tree.get(path)
            else:
                blob = base if mine == then else mine
            if blob is not None:
                chosen[path] = blob
        return chosen

    def _joined(self, refs: Refs) -> Tree:
        """The confirmed tasks, and all other files as they were committed here."""
        joined: Tree = {}
        own, theirs, began = self._committed(refs)
        for path in own.keys() | theirs.keys():
            mine, base, then = own.get(path), theirs.get(path), began.get(path)
            if mine not in (base, then) and (task_name(path) is not None or base != then):
                raise Rejected(f"{path} was changed on both sides")
            blob = base if mine == then else mine
            if blob is not None:
                joined[path] = blob
        return joined

    def _committed(self, refs: Refs) -> tuple[Tree, Tree, Tree]:
        """The user's last commit, the remote's, and their merge base."""
        repository = self._clone.repository
        common = repository.merge_bases(refs.head, refs.base)
        commits = (refs.head, refs.base, common[0] if common else None)
        own, theirs, began = (repository.listing(commit).files for commit in commits)
        return own, theirs, began

    def _unfit_changes(self, refs: Refs) -> dict[str, tuple[str, str] | None]:
        """The user's committed changes to entries that dibs neither reads nor writes."""
        repository = self._clone.repository
        if refs.head == refs.base or refs.head is None:
            return {}
        common = repository.merge_bases(refs.head, refs.base)
        began = repository.listing(common[0] if common else None).unfit
        mine, base = repository.listing(refs.head).unfit, repository.listing(refs.base).unfit
        changed = {path for path in mine.keys() | began.keys() if mine.get(path) != began.get(path)}
        return {
            path: None if path not in mine else mine[path][:2]
            for path in sorted(changed)
            if base.get(path) == began.get(path) and path.isprintable()
        }

    def _is_new_branch(self) -> bool:
        """Whether the remote does not have the branch yet."""
        self._clone.repository.fetch()
        return self._clone.repository.refs().hub is None

    def _send(self, commit: str, base: str | None) -> str:
        """Push a commit; return the commit that the remote has then."""
        repository = self._clone.repository
        try:
            repository.push(commit, base)
        except Unreachable:
            # The answer was lost, or none was given: a fetch shows whether the remote has the commit.
            repository.fetch()
            hub = repository.refs().hub
            if hub is None or not repository.is_ancestor(commit, hub):
                raise
            return hub
        return commit


def _message(base: Tree, tree: Tree) -> str:
    changed = {path for path in base.keys() | tree.keys() if base.get(path) != tree.get(path)}
    names = sorted({name.removesuffix(".md") for path in changed if (name := task_name(path)) is not None})
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"dibs: {', '.join(names[:NAMES_MAX]) or 'sync'}{more}\n"
