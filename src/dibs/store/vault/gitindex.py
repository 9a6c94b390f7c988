"""The person's own index and HEAD, which follow what dibs has pushed, beside programs that use them at any moment.

A commit is made from the index on top of HEAD. If HEAD moved on and the index did not, the next commit of a person's
program would take back all that lies between: so both move under git's own lock, which such a program holds while it
adds or commits. The same lock is held while files are changed here, until it is known that they stay so: a claim that
another program commits before it is confirmed, and pulls the winner's on top of, would be a conflict for a person to
solve. A process that is killed leaves the lock behind with our mark in it, and the next one brings it to its end.
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
    """Used with `with`, also within itself. `held` says whether the lock was to be had, and has not been used up."""

    def __init__(self, git: Git, git_dir: str) -> None:
        self._git, self._git_dir = git, git_dir
        self._path = os.path.join(git_dir, "index")
        self._lock = self._path + ".lock"
        self.held = False
        self._depth = 0

    def __enter__(self) -> GitIndex:
        self._depth += 1
        if self.held:
            return self
        until = time.monotonic() + WAIT_SECONDS
        while not self._take():
            if time.monotonic() > until:
                return self
            time.sleep(_LOOK_SECONDS)
        self.held = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self._let_go()

    def _let_go(self) -> None:
        if self.held:
            os.unlink(self._lock)
            self.held = False

    def begun(self) -> str | None:
        """What stands open in this repository."""
        return next((name for name in _BEGUN if os.path.lexists(os.path.join(self._git_dir, name))), None)

    def begun_for_long(self) -> str | None:
        """The same, after a moment in which a program may end it. Not with the lock held, which it needs for that."""
        until = time.monotonic() + WAIT_SECONDS
        while (found := self.begun()) is not None and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        return found

    def mend(self) -> None:
        """Bring to its end what a killed process of ours has begun. Nobody else of ours is at it: we have the board."""
        try:
            with open(self._lock, "rb") as file:
                ours = file.read(len(_MARK)) == _MARK
        except OSError:
            return
        if ours and not self.held:
            self.held = True
            self.follow("HEAD", None, "")
            self._let_go()

    def follow(self, commit: str, was: str | None, refs: str) -> bool:
        """With the lock held: HEAD from `was` to this commit together with `refs`, the index too; that uses it up."""
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
