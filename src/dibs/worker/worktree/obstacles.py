"""Why dibs leaves a worktree alone: what in it could be lost, or who else may use it.

Each function returns a reason for people, or None. A worktree whose folder is missing may be on a disk that is not
mounted, or have been moved: nothing says so but what git still has of it.
"""

from __future__ import annotations

import os
import shlex

from dibs.worker.worktree.repository import INITIALIZING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.worker.worktree.records import Record
    from dibs.worker.worktree.repository import Repository, Tree


def host() -> str:
    return os.uname().nodename


def is_interrupted(record: Record, tree: Tree) -> bool:
    """Whether git was killed while it made the worktree: no command has ever run there."""
    return not record.is_complete and tree.lock == INITIALIZING and record.host == host()


def is_unmarked(record: Record, tree: Tree) -> bool:
    """Whether dibs was killed before it could mark the worktree that git made for it. A person may have made another
    one at the same path since. Git names the branch only after a moment."""
    is_ours = tree.branch == record.branch or (tree.branch is None and tree.lock == INITIALIZING)
    return not record.is_complete and tree.item is None and tree.path == record.path and is_ours


def to_entry(repository: Repository, record: Record, tree: Tree) -> str | None:
    """Why no command may run in a worktree that is there."""
    if not repository.is_linked(tree):
        return (
            f"git in {record.path} does not lead to this repository; if the repository was moved: "
            f"git -C {shlex.quote(repository.common)} worktree repair"
        )
    if (why := off_branch(repository, record, tree)) is not None:
        return f"{why}; after a look at what is there: git -C {shlex.quote(record.path)} switch {record.branch}"
    if not record.is_complete and repository.changes(record.path):
        return f"git did not finish {record.path}; to have it made anew: {_forced(record)}"
    return None


def off_branch(repository: Repository, record: Record, tree: Tree) -> str | None:
    """Whether commits in the worktree would miss its branch. A rebase of the branch ends on it."""
    if tree.branch == record.branch or (tree.branch is None and repository.rebased_branch(tree) == record.branch):
        return None
    return f"its HEAD is not on the branch {record.branch}, but {f'on {tree.branch}' if tree.branch else 'detached'}"


def to_unregistering(repository: Repository, record: Record, tree: Tree) -> str | None:
    """Why the registration of a worktree must stay whose folder is missing."""
    if record.host != host():
        return f"branch {record.branch} is checked out on {record.host}, in {record.path}"
    if tree.lock is not None:
        why = "it is locked"
    elif not os.path.isdir(os.path.dirname(record.path)):
        why = "so is the folder around it"
    elif tree.branch != record.branch:
        why = f"its HEAD was not on {record.branch}"
    elif (begun := repository.unfinished(tree)) is not None:
        why = f"{begun} in it was not finished"
    elif tree.admin is None or repository.has_staged(tree.admin):
        why = "it had staged changes"
    else:
        return None
    return (
        f"{record.path} is missing, and {why}; bring it back, or name its new place: git worktree repair PATH; "
        f"if it is lost: {_forced(record)}"
    )


def to_removal(repository: Repository, record: Record, tree: Tree, *, only_published: bool) -> str | None:
    """Why the worktree must not be removed."""
    if not os.path.isdir(record.path):
        return to_unregistering(repository, record, tree)
    if tree.lock is not None:
        return f"it is locked; unlock it with: git worktree unlock {shlex.quote(record.path)}"
    if (why := to_entry(repository, record, tree)) is not None:
        return why
    if tree.item is None:
        return f"dibs was killed before it marked it; if no person made it: {_forced(record)}"
    if (begun := repository.unfinished(tree)) is not None:
        return f"{begun} in it is not finished"
    if changes := repository.changes(record.path):
        return f"it has {changes} uncommitted or untracked {'file' if changes == 1 else 'files'}"
    if repository.has_submodules(record.path):
        return "git removes no worktree with submodules, unless it is forced: git worktree remove --force"
    if (nested := repository.nested_repository(record.path)) is not None:
        return f"it has another repository in an ignored folder: {nested}"
    if _is_within(repository.folder, record.path):
        return "dibs was called in it; call dibs elsewhere"
    if only_published and not repository.is_published(record.branch, record.base):
        return f"its branch is neither pushed nor merged into {record.base}"
    return None


def _forced(record: Record) -> str:
    return f"git worktree remove -f -f {shlex.quote(record.path)}"


def _is_within(folder: str, path: str) -> bool:
    path = os.path.realpath(path)
    return os.path.commonpath([os.path.realpath(folder), path]) == path
