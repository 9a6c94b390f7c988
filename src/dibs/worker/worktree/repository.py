"""The git repository in which dibs makes worktrees: git as its user has it, with hooks, filters, LFS and submodules.

Nothing here moves a branch except forward, or deletes one. Git is forced only to remove what it was killed in making.
"""

from __future__ import annotations

import errno
import os
import re

from dibs.errors import Invalid
from dibs.guard.refs import ITEM_BRANCH_PREFIX
from dibs.system.git import LOCAL_SECONDS, Git, GitNotStarted
from dibs.system.git import GitFailed as CommandFailed
from dibs.value import Value

#: How long a command may take that writes a work tree or fetches submodules.
WRITE_SECONDS = 1800.0
MESSAGE_CHARACTERS_MAX = 500
FOLDER_SUFFIX = ".worktrees"
#: The file by which dibs recognizes its worktrees, in git's folder for the worktree: it stays when git moves the
#: worktree, and goes with it.
MARK = "dibs-item"
#: Why a worktree is locked while git makes it.
INITIALIZING = "initializing"
#: What git leaves in its folder for a worktree until an operation ends.
UNFINISHED = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "sequencer": "a cherry-pick or revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or am",
    "BISECT_LOG": "a bisection",
}
#: What the entries of a diffstat may take.
DIFFSTAT_LINES_MAX = 30
DIFFSTAT_COLUMNS = 100
DIFFSTAT_CHARACTERS_MAX = 3000


_MACHINE_ERRORS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES),
    *(errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN),
)
#: Messages that are not about one branch or worktree. `Permission denied (publickey)` is about a submodule's remote.
_OF_MACHINE = re.compile(
    rf": ({'|'.join(re.escape(os.strerror(number)) for number in _MACHINE_ERRORS)})(?! \()"
    r"|(unable to|failed to|could not|couldn't|cannot) write|write error|packed-refs\.lock|could not lock config file"
)


class GitFailed(Exception):
    """Git's message, in one line."""


class GitUnusable(GitFailed):
    """Git failed for a reason that other items meet too, such as a full disk."""


class Tree(Value):
    """A worktree that git has registered. `branch` is None for a detached HEAD, `lock` is why it is locked, `admin`
    git's folder for it (None for the main one), and `item` the one that dibs made it for."""

    path: str
    branch: str | None = None
    lock: str | None = None
    admin: str | None = None
    item: str | None = None


class Repository:
    def __init__(self, folder: str) -> None:
        """The repository around `folder`. Refused if there is none."""
        self.folder = os.path.abspath(folder)
        try:
            # One call each: a path may have newlines.
            self.common = os.path.realpath(self.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
            #: From the top of the work tree to `folder`; empty, or with a slash at its end.
            self.prefix = self.git("rev-parse", "--show-prefix")
        except GitFailed as error:
            raise Invalid(f"worktrees need a git repository: {error}", field="worktree") from None

    def git(
        self,
        *words: str,
        folder: str | None = None,
        seconds: float = LOCAL_SECONDS,
        keeps_open: int | None = None,
    ) -> str:
        """The output of a git command. Git has the descriptor `keeps_open` until it ends, also if dibs is killed."""
        here = Git(folder or self.folder, as_user=True)
        try:
            return os.fsdecode(here.run(*words, seconds=seconds, keeps_open=keeps_open)).removesuffix("\n")
        except GitNotStarted as error:
            raise GitUnusable(error.strerror) from None
        except CommandFailed as failed:
            problem = str(failed)[:MESSAGE_CHARACTERS_MAX]
            is_of_machine = failed.code is None or _OF_MACHINE.search(problem)
            raise GitUnusable(problem) if is_of_machine else GitFailed(problem) from None

    # Commits and branches

    def current(self) -> str:
        """The name of the branch that is checked out where dibs was called, or the commit of a detached HEAD."""
        try:
            return self.git("symbolic-ref", "--quiet", "--short", "HEAD")
        except GitFailed:
            return self.commit("HEAD") or "HEAD"

    def commit(self, name: str, folder: str | None = None) -> str | None:
        """The id of the commit with this name; None if there is none."""
        if name.startswith("-"):
            return None
        try:
            return self.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", folder=folder)
        except GitFailed:
            return None

    def has_branch(self, branch: str) -> bool:
        return self.commit(f"refs/heads/{branch}") is not None

    def make_branch(self, branch: str, base_commit: str) -> None:
        """Make the branch: from the branch of the same name of a remote, if exactly one has it, else at the base."""
        remote = self.remote_branch(branch)
        self.git("branch", "--no-track" if remote is None else "--track", branch, remote or base_commit)

    def remote_branch(self, branch: str) -> str | None:
        """The branch of the same name of a remote, if exactly one is known to have it."""
        refs = self.git("for-each-ref", "--format=%(refname)", f"refs/remotes/*/{branch}").split()
        return refs[0] if len(refs) == 1 else None

    def fast_forward(self, branch: str, target: str) -> bool:
        """Move a branch that is checked out nowhere to a commit that follows it. False if they have diverged."""
        ours, theirs = self.commit(f"refs/heads/{branch}"), self.commit(target)
        assert ours is not None
        if theirs is None:
            return True
        ahead, behind = map(int, self.git("rev-list", "--left-right", "--count", f"{ours}...{theirs}").split())
        if behind and not ahead:
            self.git("update-ref", "-m", "dibs: fast-forward", f"refs/heads/{branch}", theirs, ours)
        return not (ahead and behind)

    def is_published(self, branch: str, base: str) -> bool:
        """Whether the branch's commits are in the base, or in a branch that a remote is known to have."""
        tip, known = self.commit(f"refs/heads/{branch}"), self.commit(base)
        if tip is None:
            return False
        is_merged = known is not None and not self.git("rev-list", "--max-count=1", tip, f"^{known}")
        return is_merged or bool(self.git("for-each-ref", "--count=1", "--contains", tip, "refs/remotes"))

    # Worktrees

    def directory(self) -> str:
        """Where worktrees go unless told otherwise: beside the work tree that was there first, or the bare repository;
        for a submodule, beside its superproject, which must not have them among its files."""
        main = self._main()
        outer = self.git("rev-parse", "--show-superproject-working-tree", folder=main) if os.path.isdir(main) else ""
        if outer:
            main = f"{outer}.{os.path.relpath(main, outer).replace(os.sep, '-')}"
        return main + FOLDER_SUFFIX

    def _main(self) -> str:
        # `git worktree list` names the git directory instead, if that is not in the work tree.
        is_main = os.path.realpath(self.git("rev-parse", "--absolute-git-dir")) == self.common
        if is_main and self.git("rev-parse", "--is-inside-work-tree") == "true":
            return self.git("rev-parse", "--show-toplevel")
        try:
            named = self.git("config", "--file", os.path.join(self.common, "config"), "core.worktree")
            return os.path.realpath(os.path.join(self.common, named))
        except GitFailed:
            return self.worktrees()[0].path

    def worktrees(self) -> list[Tree]:
        """The registered worktrees, the main one first."""
        admins, trees = self._admins(), []
        for entry in self.git("worktree", "list", "--porcelain", "-z").split("\0\0"):
            lines = (line.partition(" ") for line in entry.split("\0") if line)
            found = {word: value for word, _, value in lines}
            if (path := found.get("worktree")) is None:
                continue
            branch, admin = found.get("branch"), admins.get(os.path.realpath(path))
            trees.append(
                Tree(
                    path=path,
                    branch=None if branch is None else branch.removeprefix("refs/heads/"),
                    lock=found.get("locked"),
                    admin=admin,
                    item=None if admin is None else _first_line(os.path.join(admin, MARK)),
                )
            )
        return trees

    def _admins(self) -> dict[str, str]:
        """Git's folder for each linked worktree, by the path of the worktree."""
        folder, found = os.path.join(self.common, "worktrees"), {}
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            admin = os.path.join(folder, name)
            try:
                with open(os.path.join(admin, "gitdir"), encoding="utf-8", errors="surrogateescape") as file:
                    path = os.path.dirname(os.path.join(admin, file.read().rstrip()))
            except OSError:
                continue  # git removes or makes it at this moment
            found[os.path.realpath(path)] = admin
        return found

    def is_linked(self, tree: Tree) -> bool:
        """Whether git in the worktree leads to this repository. Not after one of them was moved without git."""
        try:
            found = self.git("rev-parse", "--absolute-git-dir", folder=tree.path)
        except GitFailed:
            return False
        return os.path.realpath(found) == tree.admin

    def mark(self, path: str, item: str) -> None:
        """Mark the worktree as one that dibs made."""
        admin = self.git("rev-parse", "--absolute-git-dir", folder=path)
        with open(os.path.join(admin, MARK), "w", encoding="ascii") as file:
            file.write(f"{item}\n")

    def rebased_branch(self, tree: Tree) -> str | None:
        """The branch that a rebase in the worktree is about, if one has begun there."""
        if tree.admin is None:
            return None
        for kind in ("rebase-merge", "rebase-apply"):
            name = _first_line(os.path.join(tree.admin, kind, "head-name"))
            if name is not None:
                return name.removeprefix("refs/heads/")
        return None

    def unfinished(self, tree: Tree) -> str | None:
        """What git has begun in the worktree and not ended, of which `changes` may say nothing: a merge without
        conflicts, the commits that a cherry-pick still has to apply."""
        for name, what in UNFINISHED.items():
            if tree.admin is not None and os.path.lexists(os.path.join(tree.admin, name)):
                return what
        return None

    def has_staged(self, admin: str) -> bool:
        """Whether the index of a worktree, which may be missing, differs from its HEAD."""
        try:
            self.git("--git-dir", admin, "diff-index", "--cached", "--quiet", "HEAD", "--")
        except GitUnusable:
            raise
        except GitFailed:
            return True
        return False

    def add(self, path: str, branch: str, keeps_open: int) -> None:
        """Check the branch out into a new worktree."""
        self.git("worktree", "add", "--quiet", path, branch, seconds=WRITE_SECONDS, keeps_open=keeps_open)

    def init_submodules(self, path: str) -> None:
        if os.path.lexists(os.path.join(path, ".gitmodules")):
            self.git("submodule", "update", "--init", "--quiet", folder=path, seconds=WRITE_SECONDS)

    def remove(self, path: str, *force: str) -> None:
        """Remove a worktree, or the registration of one that is missing. Git refuses to remove one with changes."""
        self.git("worktree", "remove", *force, path, seconds=WRITE_SECONDS)

    def changes(self, path: str) -> int:
        """How many files of the worktree differ from its HEAD, or are untracked and not ignored."""
        status = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none")
        changed = self.git(*status, folder=path).count("\0")
        # Status does not compare files that are marked assume-unchanged (a lower-case tag) or skip-worktree.
        for entry in self.git("ls-files", "-v", "-z", folder=path).split("\0"):
            tag, _, name = entry.partition(" ")
            changed += tag.islower() or (tag == "S" and os.path.lexists(os.path.join(path, name)))
        return changed

    def nested_repository(self, path: str) -> str | None:
        """A repository in an ignored folder of the worktree, of which `changes` says nothing."""
        ignored = ("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
        for name in self.git(*ignored, folder=path).split("\0"):
            if name.endswith("/"):
                for folder, folders, files in os.walk(os.path.join(path, name)):
                    is_bare = "HEAD" in files and "objects" in folders and "refs" in folders
                    if is_bare or ".git" in folders or ".git" in files:
                        return folder
        return None

    def has_submodules(self, path: str) -> bool:
        return any(line.startswith("160000 ") for line in self.git("ls-files", "--stage", folder=path).split("\n"))

    def commits_since(self, branch: str, base_commit: str) -> int:
        return int(self.git("rev-list", "--count", f"refs/heads/{branch}", f"^{base_commit}"))

    def diffstat(self, path: str, base_commit: str) -> str:
        """What the files of the worktree differ in from where its HEAD left the base, uncommitted changes included."""
        since = self.git("merge-base", "HEAD", base_commit, folder=path)
        stat = f"--stat={DIFFSTAT_COLUMNS}"
        options = (stat, f"--stat-count={DIFFSTAT_LINES_MAX}", "--no-ext-diff", "--no-textconv", "--no-color")
        lines = self.git("-c", "core.quotePath=true", "diff", *options, since, "--", folder=path).split("\n")
        found = "\n".join(line.removeprefix(" ") for line in lines)
        return found if len(found) <= DIFFSTAT_CHARACTERS_MAX else f"{found[:DIFFSTAT_CHARACTERS_MAX]} [...]"


def branch_of(item: str) -> str:
    """The branch of an item. `%2E` stands for a dot where git allows none; no id has a percent sign."""
    name = item.replace("..", "%2E%2E")
    if name.endswith((".", ".lock")):
        head, _, tail = name.rpartition(".")
        name = f"{head}%2E{tail}"
    return ITEM_BRANCH_PREFIX + name


def _first_line(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().rstrip("\n")
    except OSError:
        return None
