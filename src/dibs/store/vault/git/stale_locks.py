"""Stale lock files of killed git processes: told from those of running ones, and removed.

Git makes a file `NAME.lock` and removes it when it is done. A killed git does not, and from then on no git can write
`NAME`. The file does not name its process. It is stale if no running git works in this repository that started before
the file was made; and, since a git in another container is invisible, only after some seconds. The refs of dibs need no
such delay: only the holder of the board's lock writes them.
"""

from __future__ import annotations

import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The least age of a stale lock that may belong to the user's git.
OLD_SECONDS = 10.0
#: The same where processes are not visible.
UNSEEN_SECONDS = 60.0
#: Start times of processes and times of files are rounded.
ROUNDING_SECONDS = 1.0
_TAKEN = re.compile(r"Unable to create '([^']+\.lock)': File exists")


def taken_locks(stderr: str) -> list[str]:
    """The locks that git reported as taken."""
    return _TAKEN.findall(stderr)


def remove_stale(git_dir: str, root: str, paths: Iterable[str]) -> list[str]:
    """Remove those of these locks that are stale and in this repository; return them."""
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
