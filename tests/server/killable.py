"""A server in a process of its own, which can be killed and started again at the same settings.

`python -m tests.server.killable ORDER` is that process; the order is JSON.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from dibs.config import DEFAULTS, ServerSettings
from dibs.server import app
from dibs.server.ops.accepting import Room
from dibs.server.ops.address import listen
from dibs.server.ops.connection import limited_by
from dibs.server.ops.open_files import raise_limit
from dibs.server.ops.run import Server
from dibs.server.service import Service, Streaming
from dibs.store.open import open_store

ROOT = Path(__file__).resolve().parents[2]


class ServerProcess:
    """`streaming` is what differs from the defaults; `send_buffer_bytes` is the kernel's part of what is on its way."""

    def __init__(
        self,
        store: str,
        *,
        port: int = 0,
        streaming: dict[str, Any] | None = None,
        send_buffer_bytes: int | None = None,
    ) -> None:
        order = {"store": store, "port": port, "streaming": streaming or {}, "send_buffer_bytes": send_buffer_bytes}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.killable", json.dumps(order)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    @property
    def pid(self) -> int:
        return self._process.pid

    def memory_kilobytes(self, figure: str) -> int:
        """`VmRSS`: what it has now; `VmHWM`: the most it ever had."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{figure}:"):
                return int(line.split()[1])
        raise AssertionError(f"the system does not tell {figure}")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._end(signal.SIGTERM)

    def _end(self, sign: signal.Signals) -> None:
        if self._process.poll() is None:
            os.kill(self.pid, sign)
        self._process.wait(30)
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def serving(store: str, **asked: Any) -> Iterator[ServerProcess]:
    process = ServerProcess(store, **asked)
    try:
        yield process
    finally:
        process.kill()


def main(order: dict[str, Any]) -> None:
    settings = ServerSettings(port=order["port"])
    listener = listen(settings)
    if order["send_buffer_bytes"] is not None:
        # What is accepted has the same.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, order["send_buffer_bytes"])
    port = listener.getsockname()[1]
    service = Service(open_store(order["store"], DEFAULTS), DEFAULTS, streaming=Streaming(**order["streaming"]))
    room = Room(raise_limit())
    config = uvicorn.Config(
        app.make(service, settings, port, None),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=10,
        ws="none",
        http=limited_by(room),
    )
    Server(config, service, lambda: print(port, flush=True), room).run(sockets=[listener])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
