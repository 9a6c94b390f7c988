"""Coexists with the user's git: moves its index and HEAD to the pushed commit, and removes the locks of killed
processes.

Git commits the index on top of HEAD. If HEAD moved and the index did not, the user's next commit would revert all
changes between, so the index is replaced before HEAD moves. If HEAD then did not move, the user's next merge would find
changes that the user did not make, and give up with a reset of all files, so HEAD is locked before the index is
replaced. The index is replaced under git's own lock, which is held only for a rename: a merge that finds the lock taken
gives up halfway, and the next commit would conclude the merge without its changes. A killed dibs process leaves its
lock behind with the mark of dibs in it, and the next dibs process removes the lock.

Git creates a file `NAME.lock` and removes it after the write. A killed git does not remove it, and then no git can
write `NAME`. The file does not name its process. It is stale if no git process in this repository started before the
file was created; and, since a git in another container is invisible, only after some seconds. The refs of dibs need no
such delay, because only the holder of the board's lock writes them.
"""

from __future__ import annotations

import os
import re
import shutil
import time

from dibs.store.vault.safe_fs import version_of
from dibs.system.git import Git, GitFailed, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
#: The least age of a stale lock that may belong to the user's git.
OLD_SECONDS = 10.0
#: The same where processes are not visible.
UNSEEN_SECONDS = 60.0
#: Start times of processes and times of files are rounded.
ROUNDING_SECONDS = 1.0
_TAKEN = re.compile(r"Unable to create '([^']+\.lock)': File exists")


class UserIndex:
    def __init__(self, git: Git, git_dir: str) -> None:
        self._git, self._git_dir = git, git_dir
        self._path = os.path.join(git_dir, "index")
        self._lock = self._path + ".lock"

    def begun(self) -> str | None:
        """The operation that the user has begun and not ended."""
        return next((what for name, what in _BEGUN.items() if os.path.lexists(os.path.join(self._git_dir, name))), None)

    def begun_for_long(self) -> str | None:
        """The same, if it has not ended after `WAIT_SECONDS`: a program may be running it."""
        until = time.monotonic() + WAIT_SECONDS
        while (found := self.begun()) is not None and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        return found

    def unmerged(self) -> list[str]:
        """Files with several versions in the index, as after a stash that did not apply. Then git cannot commit, and
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
            return False  # the user's git was faster: HEAD and the index follow later
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
        """Replace the index under git's lock. The lock is made as a link to a file with the mark, so that it never
        exists without the mark."""
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


def taken_locks(stderr: str) -> list[str]:
    """The locks that git reported as taken."""
    return _TAKEN.findall(stderr)


def remove_stale(git_dir: str, root: str, paths: Iterable[str]) -> list[str]:
    """Remove the locks among these that are stale and in this repository; return them."""
    removed = []
    for path in paths:
        place = os.path.realpath(path)
        if os.path.commonpath([place, os.path.realpath(git_dir)]) != os.path.realpath(git_dir):
            continue
        if _is_stale(place, git_dir, root):
            try:
                os.unlink(place)
            except FileNotFoundError:
                continue
            removed.append(place)
    return removed


def _is_stale(path: str, git_dir: str, root: str) -> bool:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    is_own = f"{os.sep}{os.path.join('refs', 'dibs')}{os.sep}" in path
    age = time.time() - found.st_mtime
    if not os.path.isdir("/proc/self"):
        return age > UNSEEN_SECONDS
    if age < (0 if is_own else OLD_SECONDS):
        return False
    places = [os.path.realpath(place) for place in (git_dir, root)]
    return not any(began <= found.st_mtime + ROUNDING_SECONDS for began in _running_gits(places, found.st_uid))


def _running_gits(places: list[str], user: int) -> Iterator[float]:
    """The start times of this user's running git processes in these folders."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        process = f"/proc/{name}"
        try:
            if os.stat(process).st_uid != user:
                continue
            with open(f"{process}/comm", encoding="utf-8", errors="replace") as file:
                if not file.read().startswith("git"):
                    continue
            here, began = os.readlink(f"{process}/cwd"), _start_time(process)
        except (OSError, ValueError):
            continue  # it has ended
        if any(here == place or here.startswith(f"{place}{os.sep}") for place in places):
            yield began


def _start_time(process: str) -> float:
    with open(f"{process}/stat", encoding="utf-8", errors="replace") as file:
        after_boot = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + after_boot
