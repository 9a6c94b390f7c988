"""Writes to stdout from a thread of its own, so that nobody who has something to say waits for whoever reads it.

A reader may be slow: what a command says is then held back with it. It may stop reading (`| less`, a terminal that was
stopped): then what comes is counted and left out. And it may leave: then nothing is written any more.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: So much waits to be written. What is worth more than a line of output may take as much again.
QUEUED_CHARACTERS_MAX = 500_000
PIECE_BYTES = 4096
#: A reader that has taken nothing for so long has stopped.
STALLED_SECONDS = 1.0
#: At the end, what is left has so long to be read.
LAST_SECONDS = 5.0


class Writer:
    def __init__(
        self, frame: Callable[[str], str], left_out: Callable[[int], str], every_seconds: float | None
    ) -> None:
        """`frame` makes of the text that has come what is written, also of none, `every_seconds`; `left_out` says that
        so many texts were not written. Both are called by the thread that writes."""
        self._frame, self._left_out, self._every_seconds = frame, left_out, every_seconds
        self._changed = threading.Condition()
        self._texts: list[str] = []
        self._size = self._missing = 0
        self._moved_at = time.monotonic()
        self._closing = self._gone = False
        self._fd = sys.stdout.fileno()
        self._encoding = sys.stdout.encoding or "utf-8"
        self._thread = threading.Thread(target=self._go_on, name="dibs writer", daemon=True)
        self._thread.start()

    def put(self, text: str, *, waits: bool = False) -> None:
        """Have this written; with `waits`, after waiting for room as long as somebody reads."""
        with self._changed:
            while waits and self._is_full() and not self._gone and (left := self._stalls_at() - time.monotonic()) > 0:
                self._changed.wait(left)
            if self._size >= QUEUED_CHARACTERS_MAX * (1 if waits else 2):
                self._missing += 1
            elif not self._gone:
                self._texts.append(text)
                self._size += len(text)
                self._changed.notify_all()

    def close(self) -> None:
        """Write what is left, if somebody reads it."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(LAST_SECONDS)

    def _is_full(self) -> bool:
        return self._size >= QUEUED_CHARACTERS_MAX

    def _stalls_at(self) -> float:
        return self._moved_at + STALLED_SECONDS

    def _go_on(self) -> None:
        is_last = False
        while not is_last:
            with self._changed:
                if not self._texts and not self._closing:
                    self._changed.wait(self._every_seconds)
                text, is_last = self._taken(), self._closing
            try:
                self._write(self._frame(text))
            except OSError:
                with self._changed:
                    self._gone = is_last = True
                    self._changed.notify_all()

    def _taken(self) -> str:
        text = "".join(self._texts) + (self._left_out(self._missing) if self._missing else "")
        self._texts.clear()
        self._size = self._missing = 0
        self._moved()
        return text

    def _write(self, text: str) -> None:
        data = memoryview(text.encode(self._encoding, "replace"))
        while data:
            try:
                data = data[os.write(self._fd, data[:PIECE_BYTES]) :]
            except BlockingIOError:  # somebody who has it, too, made it so
                select.select([], [self._fd], [], STALLED_SECONDS)
                continue
            with self._changed:
                self._moved()

    def _moved(self) -> None:
        self._moved_at = time.monotonic()
        self._changed.notify_all()
