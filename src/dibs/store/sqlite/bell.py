"""Wakes waiters in all processes without polling.

Every writer rings after its commit: it writes a byte into the bell file beside the board. Waiters watch that file with
inotify. They do not watch the WAL, because its pages are written before the commit to which they belong. A ring can be
lost if a writer is killed between commit and ring, so a waiter also reads SQLite's `data_version` at intervals; without
inotify it does only that.
"""

from __future__ import annotations

import _thread
import os
import time

import apsw

from dibs.errors import StoreUnusable
from dibs.store.contract import Watch
from dibs.store.sqlite.database import OpenedFile, explain
from dibs.store.sqlite.side_files import BELL, open_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.system.inotify import Inotify

#: The interval at which a waiter that relies on the bell checks for a lost ring.
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
        """Best effort: the commit does not depend on it, and waiters detect a lost ring by `data_version`."""
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
    def __init__(self, bell: Bell, connect: Callable[[], apsw.Connection]) -> None:
        self._bell, self._connect = bell, connect
        self._file = OpenedFile(bell.board)
        self._open()

    def _open(self) -> None:
        self._connection = self._file.open(self._connect)
        self._seen = self._data_version()
        self._inotify = _watch_bell(self._bell)

    def wait(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        pause = POLL_SECONDS_MIN
        while True:
            left, is_heard = end - time.monotonic(), False
            if self._inotify is None:
                time.sleep(max(0, min(left, pause)))
                pause = min(2 * pause, POLL_SECONDS_MAX)
            else:
                is_heard = self._heard(min(left, LOST_RING_SECONDS))
            if self._file.is_replaced():
                self.close()
                self._open()
                return True
            before, self._seen = self._seen, self._data_version()
            if is_heard or self._seen != before:
                return True
            if left <= 0:
                return False

    def close(self) -> None:
        if self._inotify is not None:
            # The kernel is slow to remove a watch (measured: up to 16 ms), and a woken waiter must not wait for it.
            _thread.start_new_thread(self._inotify.close, ())
            self._inotify = None
        self._connection.close(True)

    def _data_version(self) -> int:
        try:
            return int(self._connection.pragma("data_version"))
        except apsw.Error as error:
            raise explain(error, self._bell.board) from error

    def _heard(self, timeout_seconds: float) -> bool:
        assert self._inotify is not None
        # One read of the buffer is enough: the waiter reads the board once, whatever the number of rings.
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
