"""Notifications between processes: the bell file beside a board.

After its commit a writer writes a byte into the bell file, which waiting processes watch with inotify. They cannot
watch the WAL, whose pages are written before their commit. A ring is lost if the writer is killed before it, so a
waiting process also polls SQLite's `data_version` now and then; without inotify it only polls.
"""

from __future__ import annotations

import _thread
import os
import time

from dibs.errors import StoreUnusable
from dibs.store.contract import Watch
from dibs.store.sqlite.side_files import BELL, open_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: How often a watch with inotify polls for a lost ring.
LOST_RING_SECONDS = 1.0
POLL_SECONDS_MIN = 0.02
POLL_SECONDS_MAX = 0.25

IN_MODIFY = 0x2
IN_DONT_FOLLOW = 0x2000000


class Bell:
    """One process's handle of the bell file."""

    def __init__(self, board: str) -> None:
        self.board = board
        self.path = board + BELL
        self._descriptor: int | None = None

    def ring(self) -> None:
        """Best effort: the commit is done, and polling finds a lost ring."""
        try:
            if self._descriptor is None:
                self._descriptor = open_beside(self.board, BELL, os.O_WRONLY)
            os.pwrite(self._descriptor, b"!", 0)
        except (OSError, StoreUnusable):
            pass

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


class BellWatch(Watch):
    _inotify: int | None = None

    def __init__(self, bell: Bell, data_version: Callable[[], int], close: Callable[[], None]) -> None:
        self._data_version = data_version
        self._close = close
        self._seen = data_version()
        self._inotify = _watch_bell(bell)

    def wait(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        pause = POLL_SECONDS_MIN
        while True:
            left = end - time.monotonic()
            if self._inotify is None:
                time.sleep(max(0, min(left, pause)))
                pause = min(2 * pause, POLL_SECONDS_MAX)
            elif self._has_rung(min(left, LOST_RING_SECONDS)):
                self._seen = self._data_version()
                return True
            version = self._data_version()
            if version != self._seen:
                self._seen = version
                return True
            if left <= 0:
                return False

    def close(self) -> None:
        if self._inotify is not None:
            # Closing an inotify watch takes up to 16 ms (measured), and the woken caller has work to do.
            _thread.start_new_thread(os.close, (self._inotify,))
            self._inotify = None
        self._close()

    def __del__(self) -> None:
        if self._inotify is not None:
            os.close(self._inotify)

    def _has_rung(self, timeout_seconds: float) -> bool:
        import select

        assert self._inotify is not None
        poll = select.poll()
        poll.register(self._inotify, select.POLLIN)
        if not poll.poll(max(0, timeout_seconds) * 1000):
            return False
        try:
            os.read(self._inotify, 65536)  # one look at the board covers all pending rings
        except BlockingIOError:
            return False
        return True


def _watch_bell(bell: Bell) -> int | None:
    """A descriptor that becomes readable when the bell rings; None without inotify."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "inotify_init1"):
        return None
    descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:
        return None
    try:
        os.close(open_beside(bell.board, BELL, os.O_WRONLY))
    except (OSError, StoreUnusable):
        os.close(descriptor)
        return None
    if library.inotify_add_watch(descriptor, os.fsencode(bell.path), IN_MODIFY | IN_DONT_FOLLOW) < 0:
        os.close(descriptor)
        return None
    return descriptor
