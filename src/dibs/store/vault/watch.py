"""Waiting until something changes on a vault: on its board, or among its files."""

from __future__ import annotations

import time

from dibs.store.contract import Watch
from dibs.store.vault import inotify_watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.store.vault.inotify_watch import Eyes

#: How soon a file that was moved by hand is noticed where the kernel does not tell.
LOOK_SECONDS = 0.5


class VaultWatch(Watch):
    """Waits for the board's bell and for the files at once: nobody rings who moves one by hand."""

    def __init__(self, bell: Watch, look: Callable[[], None], sight: Eyes) -> None:
        self._bell, self._look, self._eyes = bell, look, sight
        self._scanned_at = time.monotonic()
        sight.look()

    def wait(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        while True:
            left = end - time.monotonic()
            self._eyes.wait(max(0, min(left, LOOK_SECONDS)))
            if self._bell.wait(0):
                self._eyes.look()
                return True
            if self._eyes.look() != set() or time.monotonic() - self._scanned_at >= inotify_watch.SCAN_SECONDS:
                self._scanned_at = time.monotonic()
                self._look()  # which rings, if there is anything new
                if self._bell.wait(0):
                    return True
            if left <= 0:
                return False

    def close(self) -> None:
        self._bell.close()
        self._eyes.close()
