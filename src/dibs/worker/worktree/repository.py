"""The git repository in which dibs makes worktrees: git as its user has it, with hooks, filters, LFS and submodules.

Nothing here forces git: it removes no worktree with changes, moves no branch and deletes none.
"""

from __future__ import annotations

import os
import subprocess

from dibs.errors import Invalid
from dibs.system import git_environment
from dibs.value import Value

#: How long a command that only reads may take, and one that writes a work tree or fetches submodules.
READ_SECONDS = 60.0
WRITE_SECONDS = 1800.0
MESSAGE_CHARACTERS_MAX = 500
BRANCH_PREFIX = "dibs/"
#: What the entries of a diffstat may take.
DIFFSTAT_LINES_MAX = 30
DIFFSTAT_COLUMNS = 100
DIFFSTAT_CHARACTERS_MAX = 3000


class GitFailed(Exception):
    """Git's message, in one line."""


class Tree(Value):
    """A worktree that git has registered. `branch` is None for a detached HEAD."""

    path: str
    branch: str | None = None
    is_locked: bool = False


class Repository:
    def __init__(self, folder: str) -> None:
        """The repository around `folder`. Refused if there is none."""
        self.folder = os.path.abspath(folder)
        try:
            found = self.git("rev-parse", "--path-format=absolute", "--git-common-dir", "--show-prefix").split("\n")
        except GitFailed as error:
            raise Invalid(f"worktrees need a git repository: {error}", field="worktree") from None
        self.common = os.path.realpath(found[0])
        #: From the top of the work tree to `folder`; empty, or with a slash at its end.
        self.prefix = found[1] if len(found) > 1 else ""
        #: The work tree that was there first, or the bare repository.
        self.main = self.worktrees()[0].path

    def git(self, *words: str, folder: str | None = None, seconds: float = READ_SECONDS, keeps_open: int = -1) -> str:
        """The output of a git command. Git has the descriptor `keeps_open` until it ends, also if dibs is killed."""
        try:
            done = subprocess.run(
                ["git", "-c", "core.fsmonitor=false", *words],
                cwd=folder or self.folder,
                env=git_environment.environment() | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                # Ctrl-C is for dibs, which lets a command finish.
                start_new_session=True,
                pass_fds=() if keeps_open < 0 else (keeps_open,),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git {words[0]} did not finish within {seconds:g}s") from None
        except OSError as error:
            raise GitFailed(f"git cannot be run: {error.strerror}") from None
        if done.returncode:
            raise GitFailed(_one_line(done.stderr) or f"git {words[0]} exited with {done.returncode}")
        return os.fsdecode(done.stdout).removesuffix("\n")

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
        refs = self.git("for-each-ref", "--format=%(refname)", f"refs/remotes/*/{branch}").split()
        start = refs[0] if len(refs) == 1 else base_commit
        self.git("branch", "--track" if start in refs else "--no-track", branch, start)

    def is_published(self, branch: str, base: str) -> bool:
        """Whether the branch's commits are in the base, or in a branch that a remote is known to have."""
        tip, known = self.commit(f"refs/heads/{branch}"), self.commit(base)
        if tip is None:
            return False
        is_merged = known is not None and not self.git("rev-list", "--max-count=1", tip, f"^{known}")
        return is_merged or bool(self.git("for-each-ref", "--count=1", "--contains", tip, "refs/remotes"))

    # Worktrees

    def worktrees(self) -> list[Tree]:
        """The registered worktrees, the main one first."""
        trees: list[Tree] = []
        for line in self.git("worktree", "list", "--porcelain").split("\n"):
            word, _, value = line.partition(" ")
            if word == "worktree":
                trees.append(Tree(path=value))
            elif word == "branch":
                trees[-1] = trees[-1].replace(branch=value.removeprefix("refs/heads/"))
            elif word == "locked":
                trees[-1] = trees[-1].replace(is_locked=True)
        return trees

    def add(self, path: str, branch: str, keeps_open: int) -> None:
        """Check the branch out into a new worktree."""
        self.git("worktree", "add", "--quiet", path, branch, seconds=WRITE_SECONDS, keeps_open=keeps_open)

    def init_submodules(self, path: str) -> None:
        if os.path.lexists(os.path.join(path, ".gitmodules")):
            self.git("submodule", "update", "--init", "--quiet", folder=path, seconds=WRITE_SECONDS)

    def remove(self, path: str) -> None:
        """Remove a worktree, or the registration of one that is missing. Git refuses to remove one with changes."""
        self.git("worktree", "remove", path, seconds=WRITE_SECONDS)

    def changes(self, path: str) -> int:
        """How many files of the worktree differ from its HEAD, or are untracked and not ignored."""
        status = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none")
        changed = self.git(*status, folder=path).count("\0")
        # Status does not compare files that are marked assume-unchanged (a lower-case tag) or skip-worktree.
        for entry in self.git("ls-files", "-v", "-z", folder=path).split("\0"):
            tag, _, name = entry.partition(" ")
            changed += tag.islower() or (tag == "S" and os.path.lexists(os.path.join(path, name)))
        return changed

    def has_submodules(self, path: str) -> bool:
        return any(line.startswith("160000 ") for line in self.git("ls-files", "--stage", folder=path).split("\n"))

    def commits_since(self, path: str, base_commit: str) -> int:
        return int(self.git("rev-list", "--count", "HEAD", f"^{base_commit}", folder=path))

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
    return BRANCH_PREFIX + name


def _one_line(message: bytes) -> str:
    lines = message.decode(errors="replace").splitlines()
    text = "; ".join(line.removeprefix("fatal: ").strip() for line in lines if line.strip())
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:MESSAGE_CHARACTERS_MAX]
