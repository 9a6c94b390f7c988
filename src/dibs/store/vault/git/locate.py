"""Finding the repository of a vault and the upstream of its branch."""

from __future__ import annotations

import os

from dibs.errors import StoreUnusable
from dibs.store.vault.git.repository import Refs, Repository, WrongBranch, checked_out_branch
from dibs.system.git import Git, GitFailed, GitNotStarted, fields


class NoBranch(Repository):
    """A repository that has a remote, but no checked-out branch with an upstream, as during a rebase. `why` is what is
    checked out instead, with advice."""

    def __init__(self, git: Git, git_dir: str, algorithm: str, why: str) -> None:
        super().__init__(git, git_dir, "", "", "", algorithm)
        self.why = why

    def refs(self) -> Refs:
        raise WrongBranch

    def fetch(self, *, again: bool = False) -> None:
        raise WrongBranch


def find(root: str) -> Repository | None:
    """The repository whose work tree is exactly this folder, if its branch has an upstream.

    A clone that was synced before stays one if a branch without an upstream, or none, is checked out (`NoBranch`):
    other clones give out the same items.
    """
    if not os.path.lexists(os.path.join(root, ".git")):
        return None
    git = Git(root)
    try:
        inside, git_dir, algorithm = git.text(
            "rev-parse", "--is-inside-work-tree", "--absolute-git-dir", "--show-object-format"
        ).splitlines()
        if inside != "true":
            return None
        git.pin(git_dir)
        return _with_upstream(git, git_dir, algorithm)
    except GitNotStarted as error:
        raise StoreUnusable(f"this vault is a git repository, and {error.strerror}", path=root) from error
    except GitFailed as failed:
        raise StoreUnusable(f"this vault's git repository cannot be used: {failed.stderr}", path=root) from failed


def _with_upstream(git: Git, git_dir: str, algorithm: str) -> Repository | None:
    settings = _settings(git)
    if settings.get("dibs.sync") == "false":
        return None
    upstreams = _upstreams(settings)
    branch = checked_out_branch(git, git_dir)
    if branch is None:
        return NoBranch(git, git_dir, algorithm, "on no branch: check one out") if upstreams else None
    if branch in upstreams:
        return Repository(git, git_dir, branch, *upstreams[branch], algorithm)
    if not git.text("for-each-ref", "--count=1", "refs/dibs/"):
        return None
    back = f"check out {' or '.join(sorted(upstreams))} again, " if upstreams else ""
    ways = f"{back}set an upstream with git push -u, or work alone with git config dibs.sync false"
    return NoBranch(git, git_dir, algorithm, f"on the branch {branch}, which has no upstream: {ways}")


def _upstreams(settings: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The remote and the ref that each branch with an upstream follows."""
    branches = [name.removeprefix("branch.").removesuffix(".merge") for name in settings if name.endswith(".merge")]
    remotes = {branch: settings.get(f"branch.{branch}.remote", ".") for branch in branches}
    return {branch: (at, settings[f"branch.{branch}.merge"]) for branch, at in remotes.items() if at != "."}


def _settings(git: Git) -> dict[str, str]:
    try:
        answer = git.run("config", "-z", "--get-regexp", r"^branch\..*\.(remote|merge)$")
    except GitFailed as failed:
        if failed.code != 1:
            raise
        answer = b""
    found = dict(part.decode(errors="replace").partition("\n")[::2] for part in fields(answer))
    if not git.succeeds("config", "--type=bool", "--get", "dibs.sync"):
        return found
    return {**found, "dibs.sync": git.text("config", "--type=bool", "--get", "dibs.sync")}
