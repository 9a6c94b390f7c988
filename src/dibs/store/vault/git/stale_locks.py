"""Locks that a killed git has left in a repository: told from those of a git that lives, and taken away.

Git makes a file `NAME.lock` and removes it when it is done; one that is killed does not, and from then on nobody can
write what it was about. Such a file does not name its process. It is taken to be left behind if no git that lives works
in this repository and began before the file was made; and, since a git in another container cannot be seen, only some
seconds after. Refs of our own need no such wait: who holds the board's lock is the only one to write them.
"""

from __future__ import annotations

import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: How old a lock has to be that may be of a person's git.
OLD_SECONDS = 10.0
#: The same where processes cannot be looked at.
UNSEEN_SECONDS = 60.0
#: What a process that starts is told of, beside a file that it makes at once: both are rounded.
ROUNDING_SECONDS = 1.0
_TAKEN = re.compile(r"Unable to create '([^']+\.lock)': File exists")


def in_the_way(said: str) -> list[str]:
    """The locks that git said it could not take."""
    return _TAKEN.findall(said)


def remove_dead(git_dir: str, root: str, paths: Iterable[str]) -> list[str]:
    """Take away those of these locks, all in this repository, that nobody holds any more; which they were."""
    removed = []
    for path in paths:
        place = os.path.realpath(path)
        if os.path.commonpath([place, os.path.realpath(git_dir)]) != os.path.realpath(git_dir):
            continue
        if _is_dead(place, git_dir, root):
            try:
                os.unlink(place)
            except FileNotFoundError:
                continue
            removed.append(place)
    return removed


def _is_dead(path: str, git_dir: str, root: str) -> bool:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    is_ours = f"{os.sep}{os.path.join('refs', 'dibs')}{os.sep}" in path
    age = time.time() - found.st_mtime
    if not os.path.isdir("/proc/self"):
        return age > UNSEEN_SECONDS
    if age < (0 if is_ours else OLD_SECONDS):
        return False
    places = [os.path.realpath(place) for place in (git_dir, root)]
    return not any(began <= found.st_mtime + ROUNDING_SECONDS for began in _gits_at_work(places, found.st_uid))


def _gits_at_work(places: list[str], user: int) -> Iterator[float]:
    """When each git of this user began that lives and is at work in these folders."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        process = f"/proc/{name}"
        try:
            if os.stat(process).st_uid != user:
                continue
            with open(f"{process}/comm", encoding="utf-8", errors="replace") as file:
                if not file.read().startswith("git"):
                    continue
            here, began = os.readlink(f"{process}/cwd"), _began(process)
        except (OSError, ValueError):
            continue  # it has ended
        if any(here == place or here.startswith(f"{place}{os.sep}") for place in places):
            yield began


def _began(process: str) -> float:
    with open(f"{process}/stat", encoding="utf-8", errors="replace") as file:
        after_boot = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + after_boot
