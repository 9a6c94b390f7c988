"""Several server processes on one socket, for a board on PostgreSQL: started, started again if they die, stopped.

A worker is `python -m dibs.server.ops.process`. It inherits the listening socket and reads everything else from its
stdin, where no other user can read it. When its stdin closes, its parent is gone, and it exits.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dibs.config import ServerSettings
from dibs.server import STOP_SECONDS
from dibs.server.ops import log_lines

#: One that dies at once is not started anew at once.
PAUSE_SECONDS_MIN = 0.5
PAUSE_SECONDS_MAX = 30.0
#: One that lived so long starts with the shortest pause again.
SOUND_SECONDS = 60.0
#: Beyond the time that a worker takes by itself.
GRACE_SECONDS = 5.0


class Worker:
    """One place in the row, and the process that is in it."""

    def __init__(self, listener: socket.socket, orders: bytes) -> None:
        self._listener, self._orders = listener, orders
        self._pause_seconds = PAUSE_SECONDS_MIN
        self._begun = 0.0
        self._due = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def tend(self) -> float:
        """Start it if it does not run and is due; how many seconds until this is worth another look."""
        now = time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            self._mourn(self._process, now)
        if self._process is not None:
            return PAUSE_SECONDS_MIN
        if now >= self._due:
            self._start(now)
            return PAUSE_SECONDS_MIN
        return self._due - now

    def ask_to_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def end(self, by: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, by - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _start(self, now: float) -> None:
        self._begun = now
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dibs.server.ops.process", str(self._listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[self._listener.fileno()],
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(self._orders)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it died already, which is seen in a moment

    def _mourn(self, process: subprocess.Popen[bytes], now: float) -> None:
        if now - self._begun >= SOUND_SECONDS:
            self._pause_seconds = PAUSE_SECONDS_MIN
        logging.warning(
            "worker %d ended with %d; the next starts in %.1fs", process.pid, process.returncode, self._pause_seconds
        )
        if process.stdin is not None:
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass  # what it was told was never read
        self._process = None
        self._due = now + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)


def run(url: str, settings: ServerSettings, listener: socket.socket, *, quiet: bool) -> None:
    """Keep so many workers as it was said until this process is told to stop."""
    log_lines.install(settings.log_json)
    told: dict[str, Any] = {"url": url, "settings": settings.as_dict(), "quiet": quiet}
    orders = json.dumps(told).encode() + b"\n"
    workers = [Worker(listener, orders) for _ in range(settings.workers)]
    with _stop_signals() as stopping:
        try:
            while not stopping.is_set():
                stopping.wait(min(worker.tend() for worker in workers))
        finally:
            listener.close()
            for worker in workers:
                worker.ask_to_stop()
            by = time.monotonic() + STOP_SECONDS + GRACE_SECONDS
            for worker in workers:
                worker.end(by)


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Set once this process is asked to stop. An interrupt at a terminal reaches the workers by itself, too."""
    stopping = threading.Event()
    before = {one: signal.signal(one, lambda *_: stopping.set()) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
