"""How many files this process may have open, and what follows from it: each connection is one, and so is each stream.

Part of them is kept for the board and for what else a server opens, so that a crowd of connections is refused in words
before the system refuses to accept one.
"""

from __future__ import annotations

import resource

from dibs.value import Value

#: Asked for where the system names no limit. macOS names none and allows so many all the same.
FILES_MAX = 65_536
FILES_MAX_MACOS = 10_240


class Room(Value):
    """What a process with a limit of `files` takes on."""

    files: int

    @property
    def connections_max(self) -> int:
        return self.files * 3 // 4

    @property
    def refused_max(self) -> int:
        """How many beyond these are told that there is no room; more are cut off."""
        return self.files // 16

    def streams_max(self, wanted: int) -> int:
        """As many as are wanted, but fewer than connections: a stream stays, and verbs have to get in beside it."""
        return min(wanted, self.files // 2)

    def streams_per_key(self, wanted: int, of: int) -> int:
        """The same share of the streams that there may be as was wanted `of` so many, and one at least."""
        return wanted if self.streams_max(of) == of else min(wanted, max(1, wanted * self.streams_max(of) // of))


def allow_most() -> Room:
    """Raise the soft limit of open files to the hard one, which needs nobody's leave."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = (FILES_MAX, FILES_MAX_MACOS) if hard == resource.RLIM_INFINITY else (hard,)
    for files in wanted:
        if _is_below(soft, files) and _raised(files, hard):
            soft = files
    return Room(files=FILES_MAX if soft == resource.RLIM_INFINITY else soft)


def _is_below(soft: int, files: int) -> bool:
    return soft != resource.RLIM_INFINITY and soft < files


def _raised(files: int, hard: int) -> bool:
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    except (ValueError, OSError):
        return False  # the system allows less than it says
    return True
