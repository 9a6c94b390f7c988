"""The limit of open files, and the numbers of connections and streams that follow from it: each uses one descriptor.

Some descriptors are left for the board and other files, so that the server refuses connections with an explanation
before the system refuses to accept them.
"""

from __future__ import annotations

import resource

from dibs.value import Value

#: Requested where the hard limit is infinite. macOS reports infinity but allows only the second.
FILES_MAX = 65_536
FILES_MAX_MACOS = 10_240


class FileLimit(Value):
    files: int

    @property
    def connections_max(self) -> int:
        return self.files * 3 // 4

    @property
    def refused_max(self) -> int:
        """How many connections beyond that are accepted, for a refusal or for a key that has few."""
        return self.files // 16

    def streams_max(self, wanted: int) -> int:
        """Fewer than connections, because streams stay open and verbs need connections beside them."""
        return min(wanted, self.files // 2)

    def streams_per_key(self, wanted: int, of: int) -> int:
        """Reduced in proportion if `of` streams in all are too many, to at least one."""
        return wanted if self.streams_max(of) == of else min(wanted, max(1, wanted * self.streams_max(of) // of))


def raise_limit() -> FileLimit:
    """Raise the soft limit of open files to the hard limit, which every process may do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for files in (FILES_MAX, FILES_MAX_MACOS) if hard == resource.RLIM_INFINITY else (hard,):
        if soft != resource.RLIM_INFINITY and soft < files:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
                soft = files
            except (ValueError, OSError):
                pass  # the system allows less than it reports
    return FileLimit(files=FILES_MAX if soft == resource.RLIM_INFINITY else soft)
