"""Linux's inotify: a descriptor that becomes readable when a watched file or folder changes.

An event is queued inside the system call that makes the change, so a reader that looks after that call has returned
finds the event.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF, IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
IN_ONLYDIR, IN_DONT_FOLLOW, IN_ISDIR = 0x1000000, 0x2000000, 0x40000000
#: Masks for `watch`: the entries of a folder; these and the files in it; only writes to its files.
ENTRIES = IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR
ENTRIES |= IN_DONT_FOLLOW
ENTRIES_AND_FILES = ENTRIES | IN_MODIFY | IN_ATTRIB
WRITES = IN_MODIFY | IN_ONLYDIR | IN_DONT_FOLLOW
#: The events after which some changes may go unreported.
LOST = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED

_READ_BYTES = 65536
_HEADER_BYTES = 16


class Inotify:
    """One inotify instance. Raises OSError where the system has no inotify, or grants no further instance."""

    descriptor: int | None = None

    def __init__(self) -> None:
        import ctypes

        self._library: Any = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._library, "inotify_init1"):
            raise OSError("this system has no inotify")
        self.descriptor = self._checked(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path: str, mask: int) -> int:
        """Watch a path; return the number that its events carry."""
        return self._checked(self._library.inotify_add_watch(self.descriptor, os.fsencode(path), mask))

    def unwatch(self, watch: int) -> None:
        self._library.inotify_rm_watch(self.descriptor, watch)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for an event; False if there was none in time."""
        import select

        assert self.descriptor is not None
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, timeout_seconds) * 1000))

    def read(self) -> list[tuple[int, int, str]]:
        """One buffer full of queued events, each as (watch, mask, name); empty if none is queued."""
        assert self.descriptor is not None
        try:
            return list(_events(os.read(self.descriptor, _READ_BYTES)))
        except BlockingIOError:
            return []

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def _checked(self, result: Any) -> int:
        if result < 0:
            import ctypes

            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(result)


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    import sys

    order, at = sys.byteorder, 0
    while at < len(data):
        watch = int.from_bytes(data[at : at + 4], order, signed=True)
        mask = int.from_bytes(data[at + 4 : at + 8], order)
        end = at + _HEADER_BYTES + int.from_bytes(data[at + 12 : at + 16], order)
        yield watch, mask, os.fsdecode(data[at + _HEADER_BYTES : end].rstrip(b"\0"))
        at = end
