"""The user's index and HEAD, which follow what dibs pushed, while the user's git may use them at any moment.

Git commits the index on top of HEAD. If HEAD moved and the index did not, the user's next commit would revert all
changes between: so the index is replaced before HEAD moves. If HEAD then did not move, the user's next merge would find
changes that nobody made, and give up with a reset of all files: so HEAD is locked before the index is replaced. The
index is replaced under git's own lock, held no longer than a rename takes: a merge that finds the lock taken gives up
halfway, and the next commit would conclude it without merging anything. A killed process leaves its lock behind with
the mark of dibs in it, and the next one removes it.
"""

from __future__ import annotations

import os
import shutil
import time

from dibs.store.vault.git.command import Git, GitFailed, fields
from dibs.store.vault.safe_fs import version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: How long to wait for the user's git.
WAIT_SECONDS = 3.0
_POLL_SECONDS = 0.02
_ANSWER_POLL_SECONDS = 0.001
_MARK = b"dibs\n"
#: The files that git keeps during an operation that only the user can end.
_BEGUN = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}


class UserIndex:
    def __init__(self, git: Git, git_dir: str) -> None:
        self._git, self._git_dir = git, git_dir
        self._path = os.path.join(git_dir, "index")
        self._lock = self._path + ".lock"

    def begun(self) -> str | None:
        """The operation that the user has begun and not ended."""
        return next((what for name, what in _BEGUN.items() if os.path.lexists(os.path.join(self._git_dir, name))), None)

    def begun_for_long(self) -> str | None:
        """The same, after giving a program a moment to end it."""
        until = time.monotonic() + WAIT_SECONDS
        while (found := self.begun()) is not None and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return found

    def unmerged(self) -> list[str]:
        """Files with several versions in the index, after a stash that did not apply, say: git cannot commit then, and
        HEAD cannot follow."""
        lines = fields(self._git.run("ls-files", "--unmerged", "-z"))
        return sorted({line.partition(b"\t")[2].decode(errors="replace") for line in lines})

    def remove_own_lock(self) -> None:
        """Remove the lock of a killed dibs process. No other dibs process uses it, since this one has the board's
        lock."""
        try:
            with open(self._lock, "rb") as file:
                is_own = file.read(len(_MARK)) == _MARK
        except OSError:
            return
        if is_own:
            _unlink(self._lock)

    def follow(self, commit: str, was: str | None, refs: str) -> bool:
        """Move HEAD from `was` to `commit`, apply the ref updates `refs`, and replace the index before; return False if
        the user's git is using them."""
        fresh = os.path.join(self._git_dir, "dibs-index")
        if self.begun() is not None:
            return False
        try:
            _unlink(f"{fresh}.lock")  # of a killed git: only the holder of the board's lock uses this file
            before = version_of(self._path)
            if before is not None:
                shutil.copyfile(self._path, fresh)
            self._git.run("read-tree", "-i", "-m", commit, index=fresh)
            return self._replace_and_move(fresh, before, f"update HEAD {commit} {was or '0' * len(commit)}\n{refs}")
        except GitFailed:
            return False  # the user's git was faster: they follow later
        finally:
            _unlink(fresh)

    def _replace_and_move(self, fresh: str, before: tuple[int, int] | None, moves: str) -> bool:
        """Replace the index and move the refs: all of them, or none."""
        heard = bytearray()
        replaced = []

        def dialog() -> Iterator[bytes]:
            yield f"start\n{moves}prepare\n".encode()
            while b"prepare: ok" not in heard:
                time.sleep(_ANSWER_POLL_SECONDS)
                yield b""
            replaced.append(self._replace(fresh, before))
            yield b"commit\n" if replaced[0] else b"abort\n"

        self._git.run("update-ref", "--stdin", feed=dialog(), heard=heard)
        return replaced == [True]

    def _replace(self, fresh: str, before: tuple[int, int] | None) -> bool:
        """Replace the index under git's lock. The lock is linked with its mark, so that it has it at any instant."""
        mark = os.path.join(self._git_dir, "dibs-lock")
        with open(mark, "wb") as file:
            file.write(_MARK)
        try:
            os.link(mark, self._lock)
        except FileExistsError:
            return False
        finally:
            _unlink(mark)
        is_unchanged = version_of(self._path) == before and self.begun() is None
        if is_unchanged:
            os.replace(fresh, self._path)
        _unlink(self._lock)
        return is_unchanged


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
