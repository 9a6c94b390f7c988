"""The person's own index and HEAD, which follow what dibs has pushed, beside programs that use them at any moment.

A commit is made from the index on top of HEAD. If HEAD moved on and the index did not, the next commit of a person's
program would take back all that lies between: so both move under git's own lock, which such a program holds while it
adds or commits. The same lock is held while files are changed here, so that nobody commits half of it. A process that
is killed leaves the lock behind with our mark in it, and the next one brings it to its end.
"""

from __future__ import annotations

import os
import shutil
import time

from dibs.store.vault.git import Git, GitFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

#: How long a person's git is waited for.
WAIT_SECONDS = 3.0
_LOOK_SECONDS = 0.02
_MARK = b"dibs\n"
#: What lies in a repository in which something was begun that only the person can end.
_BEGUN = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")


class GitIndex:
    """Used with `with`: `held` says whether the lock could be had."""

    def __init__(self, git: Git, git_dir: str) -> None:
        self._git, self._git_dir = git, git_dir
        self._path = os.path.join(git_dir, "index")
        self._lock = self._path + ".lock"
        self.held = False

    def __enter__(self) -> GitIndex:
        until = time.monotonic() + WAIT_SECONDS
        while not self._take():
            if time.monotonic() > until:
                return self
            time.sleep(_LOOK_SECONDS)
        self.held = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.held:
            os.unlink(self._lock)
            self.held = False

    def begun(self) -> str | None:
        """What stands open in this repository, after a moment in which a program may have ended it."""
        until = time.monotonic() + WAIT_SECONDS
        while found := next((name for name in _BEGUN if os.path.lexists(os.path.join(self._git_dir, name))), None):
            if time.monotonic() > until:
                return found
            time.sleep(_LOOK_SECONDS)
        return None

    def mend(self) -> None:
        """Bring to its end what a killed process of ours has begun. Nobody else of ours is at it: we have the board."""
        try:
            with open(self._lock, "rb") as file:
                ours = file.read(len(_MARK)) == _MARK
        except OSError:
            return
        if ours:
            self.held = True
            self.follow("HEAD", None, "")

    def follow(self, commit: str, was: str | None, refs: str) -> bool:
        """With the lock held: HEAD from `was` to this commit together with `refs`, the index too; the lock is gone."""
        fresh = os.path.join(self._git_dir, "dibs-index")
        try:
            if os.path.exists(self._path):
                shutil.copyfile(self._path, fresh)
            self._git.run("read-tree", "-i", "-m", commit, index=fresh)
            if commit != "HEAD":
                old = was or "0" * len(commit)
                self._git.run("update-ref", "--stdin", feed=[f"update HEAD {commit} {old}\n{refs}".encode()])
        except GitFailed:
            # Somebody was faster, or is in the middle of a merge: it follows some other time.
            _unlink(fresh)
            self.__exit__(None, None, None)
            return False
        os.replace(fresh, self._lock)
        os.replace(self._lock, self._path)
        self.held = False
        return True

    def _take(self) -> bool:
        try:
            descriptor = os.open(self._lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            return False
        with open(descriptor, "wb") as file:
            file.write(_MARK)
        return True


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
