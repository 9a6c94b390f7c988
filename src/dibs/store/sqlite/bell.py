"""Waking those who wait, across processes, without polling.

Every writer rings after its commit: it writes a byte into the bell file beside the board. Waiters watch that file with
inotify. The WAL itself would be the wrong thing to watch, since its pages are written before the commit they belong to.
A ring can be lost (a writer killed between commit and ring), so a waiter also looks now and then at SQLite's
`data_version`, and where there is no inotify it does only that.
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

    from dibs.system.inotify import Inotify

#: How often a waiter that relies on the bell makes sure that no ring was lost.
LOST_RING_SECONDS = 1.0
POLL_SECONDS_MIN = 0.02
POLL_SECONDS_MAX = 0.25


class Bell:
    """One process's handle of the bell file."""

    def __init__(self, board: str) -> None:
        self.board = board
        self.path = board + BELL
        self._descriptor: int | None = None

    def ring(self) -> None:
        """Best effort: what was committed is committed, and a lost ring is found out by looking."""
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
            elif self._heard(min(left, LOST_RING_SECONDS)):
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
            # The kernel is slow to remove a watch (measured: up to 16 ms), and a woken waiter wants its item at once.
            _thread.start_new_thread(self._inotify.close, ())
            self._inotify = None
        self._close()

    def _heard(self, timeout_seconds: float) -> bool:
        assert self._inotify is not None
        # One buffer is enough: however many rings there were, one look at the board answers them all.
        return self._inotify.wait(timeout_seconds) and bool(self._inotify.read())


def _watch_bell(bell: Bell) -> Inotify | None:
    """Watch the bell file; None where the system has no inotify."""
    from dibs.system.inotify import IN_DONT_FOLLOW, IN_MODIFY, Inotify

    try:
        inotify = Inotify()
        os.close(open_beside(bell.board, BELL, os.O_WRONLY))
        inotify.watch(bell.path, IN_MODIFY | IN_DONT_FOLLOW)
    except (OSError, StoreUnusable):
        return None
    return inotify
