"""Several server processes on one socket, for a board on PostgreSQL: started, restarted when they exit, and stopped.

A worker is `python -m dibs.server.ops.workers SOCKET`. It inherits the listening socket and reads its configuration
from stdin, a line of JSON, which no other user can read. It stops when its stdin is closed, because its parent has
exited then.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dibs.config import ServerSettings
from dibs.server import STOP_SECONDS
from dibs.server.ops import hangups, logs

#: Backoff between restarts of one worker.
PAUSE_SECONDS_MIN = 0.5
PAUSE_SECONDS_MAX = 30.0
#: A worker that ran this long resets the backoff.
STABLE_SECONDS = 60.0
#: How long after its own limit a stopping worker is killed.
GRACE_SECONDS = 5.0


class WorkerProcess:
    """One worker process at a time, restarted with backoff."""

    def __init__(self, listener: socket.socket, configuration: bytes) -> None:
        self._listener, self._configuration = listener, configuration
        self._pause_seconds = PAUSE_SECONDS_MIN
        self._started = 0.0
        self._restart_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def ensure_running(self) -> float:
        """Start the process if it does not run and the pause is over. Returns the seconds until the next call."""
        now = time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            self._on_exit(self._process, now)
        if self._process is None:
            if now < self._restart_at:
                return self._restart_at - now
            self._start(now)
        return PAUSE_SECONDS_MIN

    def send(self, which: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(which)

    def join(self, deadline: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _start(self, now: float) -> None:
        self._started = now
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dibs.server.ops.workers", str(self._listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[self._listener.fileno()],
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(self._configuration)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it exited already, which the next call finds

    def _on_exit(self, process: subprocess.Popen[bytes], now: float) -> None:
        if now - self._started >= STABLE_SECONDS:
            self._pause_seconds = PAUSE_SECONDS_MIN
        logging.warning(
            "worker %d exited with %d; restarting in %.1fs", process.pid, process.returncode, self._pause_seconds
        )
        if process.stdin is not None:
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass  # it never read its configuration
        self._process = None
        self._restart_at = now + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)


def run(url: str, settings: ServerSettings, listener: socket.socket, *, quiet: bool) -> None:
    """Keep `settings.workers` processes running until a signal stops this process."""
    logs.install(settings.log_json)
    configuration = json.dumps({"url": url, "settings": settings.as_dict(), "quiet": quiet}).encode() + b"\n"
    workers = [WorkerProcess(listener, configuration) for _ in range(settings.workers)]
    with _signals() as (stopping, hung_up):
        try:
            while not stopping.is_set():
                stopping.wait(min(worker.ensure_running() for worker in workers))
                if hung_up.is_set():
                    hung_up.clear()
                    for worker in workers:
                        worker.send(signal.SIGHUP)
        finally:
            listener.close()
            for worker in workers:
                worker.send(signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS + GRACE_SECONDS
            for worker in workers:
                worker.join(deadline)


@contextmanager
def _signals() -> Iterator[tuple[threading.Event, threading.Event]]:
    """An event that SIGTERM and SIGINT set, and one that SIGHUP sets for the workers, which reload their certificate.
    A terminal sends its interrupt to the workers as well."""
    stopping, hung_up = threading.Event(), threading.Event()
    before = {one: signal.signal(one, lambda *_: stopping.set()) for one in (signal.SIGTERM, signal.SIGINT)}
    on_hangup = stopping if hangups.ends_terminal() else hung_up
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: on_hangup.set())
    try:
        yield stopping, hung_up
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


# In a worker


def main() -> int:
    from dibs import location
    from dibs.board import open_board
    from dibs.errors import DibsError
    from dibs.github.intake import load_intake
    from dibs.server.ops.run import make_server

    hangups.ignore_until_started()
    listener = socket.socket(fileno=int(sys.argv[1]))
    configuration = json.loads(sys.stdin.readline())
    settings = ServerSettings(**{**configuration["settings"], "names": tuple(configuration["settings"]["names"])})
    try:
        place = location.look(".", configuration["url"])
        intake = load_intake(place)
        board = open_board(place, actor="dibs")
    except DibsError as error:
        sys.stderr.write(f"dibs: {location.without_password(error.message)}\n")
        return error.exit_code
    log = None if configuration["quiet"] else sys.stderr
    server = make_server(board, settings, listener, log, intake=intake)

    def stop_with_parent() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=stop_with_parent, daemon=True).start()
    server.run(sockets=[listener])
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Skips the interpreter's teardown: everything is written and closed by now.
    os._exit(code)
