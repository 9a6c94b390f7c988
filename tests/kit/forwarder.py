"""Accepts connections on a port of its own, and serves each in a thread: the base of what stands between two sides."""

from __future__ import annotations

import select
import socket
import threading
from typing import Self

PIECE = 1 << 16
POLL_SECONDS = 0.02
JOIN_SECONDS = 10.0


class Forwarder:
    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._over = False
        self._threads: list[threading.Thread] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
        self._listener.close()

    def _accept(self) -> None:
        while not self._over:
            if select.select([self._listener], [], [], POLL_SECONDS)[0]:
                client, _ = self._listener.accept()
                self._spawn(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        raise NotImplementedError

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()
