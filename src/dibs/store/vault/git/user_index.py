"""The person's own index and HEAD, which follow what dibs has pushed, beside programs that use them at any moment.

A commit is made from the index on top of HEAD. If HEAD moved on and the index did not, the next commit of a person's
program would take back all that lies between: so the index follows first. And if HEAD then did not, their next merge
would find changes that nobody made, and give up by a reset of all files: so HEAD is held before. The index is replaced
under git's own lock, and for no longer than a rename takes: a merge that finds that lock taken gives up halfway, and
whoever commits after it ends a merge in which nothing was merged. A process that is killed leaves the lock behind with
our mark in it, and the next one takes it away.
"""

from __future__ import annotations

import os
import shutil
import time

from dibs.store.vault.git.command import Git, GitFailed, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: How long a person's git is waited for.
WAIT_SECONDS = 3.0
_LOOK_SECONDS = 0.02
_HEAR_SECONDS = 0.001
_MARK = b"dibs\n"
#: What lies in a repository in which something was begun that only the person can end, and what it was.
_BEGUN = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}


class GitIndex:
    def __init__(self, git: Git, git_dir: str) -> None:
        self._git, self._git_dir = git, git_dir
        self._path = os.path.join(git_dir, "index")
        self._lock = self._path + ".lock"

    def begun(self) -> str | None:
        """What stands open in this repository."""
        return next((what for name, what in _BEGUN.items() if os.path.lexists(os.path.join(self._git_dir, name))), None)

    def begun_for_long(self) -> str | None:
        """The same, after a moment in which a program may end it."""
        until = time.monotonic() + WAIT_SECONDS
        while (found := self.begun()) is not None and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        return found

    def unmerged(self) -> list[str]:
        """Files of which the index has several texts: a stash that did not fit, say. Nothing is begun there, and still
        neither a commit can be made nor can HEAD follow."""
        lines = fields(self._git.run("ls-files", "--unmerged", "-z"))
        return sorted({line.partition(b"\t")[2].decode(errors="replace") for line in lines})

    def mend(self) -> None:
        """Take away the lock that a killed process of ours has left. No other of ours is at it: we have the board."""
        try:
            with open(self._lock, "rb") as file:
                ours = file.read(len(_MARK)) == _MARK
        except OSError:
            return
        if ours:
            _unlink(self._lock)

    def follow(self, commit: str, was: str | None, refs: str) -> bool:
        """HEAD from `was` to this commit, with `refs`, and the index before it; not if somebody is at them."""
        fresh = os.path.join(self._git_dir, "dibs-index")
        if self.begun() is not None:
            return False
        try:
            _unlink(f"{fresh}.lock")  # of a git that was killed: who has the board is alone with this one
            before = _stamp(self._path)
            if before is not None:
                shutil.copyfile(self._path, fresh)
            self._git.run("read-tree", "-i", "-m", commit, index=fresh)
            return self._move(fresh, before, f"update HEAD {commit} {was or '0' * len(commit)}\n{refs}")
        except GitFailed:
            return False  # somebody was faster: it follows some other time
        finally:
            _unlink(fresh)

    def _move(self, fresh: str, before: tuple[int, int] | None, moves: str) -> bool:
        """The index and the refs: all of them, or none."""
        heard = bytearray()
        replaced = []

        def talk() -> Iterator[bytes]:
            yield f"start\n{moves}prepare\n".encode()
            while b"prepare: ok" not in heard:
                time.sleep(_HEAR_SECONDS)
                yield b""
            replaced.append(self._replace(fresh, before))
            yield b"commit\n" if replaced[0] else b"abort\n"

        self._git.run("update-ref", "--stdin", feed=talk(), heard=heard)
        return replaced == [True]

    def _replace(self, fresh: str, before: tuple[int, int] | None) -> bool:
        """The lock comes into being with our mark in it: whenever this process is killed, it is known for ours."""
        mark = os.path.join(self._git_dir, "dibs-lock")
        with open(mark, "wb") as file:
            file.write(_MARK)
        try:
            os.link(mark, self._lock)
        except FileExistsError:
            return False
        finally:
            _unlink(mark)
        same = _stamp(self._path) == before and self.begun() is None
        if same:
            os.replace(fresh, self._path)
        _unlink(self._lock)
        return same


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
