"""A proxy before a server that cuts a connection in the middle of one exchange, at a chosen point.

with CuttingProxy.before_postgres(server.url("board")) as proxy:
    proxy.cut("before the answer")                          # the next request is carried out, its answer is lost
    proxy.cut("before the request", marker=b"dibs.claim")   # the next request with these bytes never arrives
    proxy.away = True                                       # nobody is let in any more
"""

from __future__ import annotations

import re
import select
import socket
import threading
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

#: Where an exchange can be cut: nothing of the request arrives; half of it arrives; all of it arrives, and the answer
#: is not waited for, so that the server may still be at work; the answer is given and lost; half of it comes back.
POINTS = ("before the request", "in the request", "during the work", "before the answer", "in the answer")
#: The end of every answer of PostgreSQL: ready for the next request, with or without an open transaction.
READY = tuple(b"Z\x00\x00\x00\x05" + status for status in (b"I", b"T", b"E"))
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
PIECE = 1 << 16
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 30.0


class CuttingProxy:
    """`is_request` and `is_answer` say whether these bytes are all of one: the protocols differ in that."""

    def __init__(self, is_request: Callable[[bytes], bool], is_answer: Callable[[bytes], bool]) -> None:
        self._is_request, self._is_answer = is_request, is_answer
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        #: Where the server listens.
        self.target = ("127.0.0.1", 0)
        self.away = False
        #: How many requests came, and how many of them were cut.
        self.exchanges = self.cuts = 0
        self._point: str | None = None
        self._skip, self._marker = 0, b""
        self._lock = threading.Lock()
        self._over = False
        self._threads: list[threading.Thread] = []

    @classmethod
    def before_postgres(cls, url: str) -> Self:
        parts = urlsplit(url)
        proxy = cls(bool, lambda answer: answer.endswith(READY))
        proxy.target = (parts.hostname or "127.0.0.1", parts.port or 5432)
        return proxy

    @classmethod
    def before_http(cls) -> Self:
        """The server has to know the proxy's name: start it with `host` among its hosts, then set `target`."""
        return cls(lambda request: size_of_request(request) > 0, lambda answer: size_of_request(answer) > 0)

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        self._listener.close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, url: str) -> str:
        """The same URL by way of the proxy."""
        parts = urlsplit(url)
        login = parts.netloc.rpartition("@")[0]
        return parts._replace(netloc=f"{login}@{self.host}" if login else self.host).geturl()

    def cut(self, point: str, *, skip: int = 0, marker: bytes = b"") -> None:
        """Cut the next exchange at this point; or, after `skip` others, the next whose request has these bytes."""
        assert point in POINTS
        with self._lock:
            self._point, self._skip, self._marker = point, skip, marker

    def calm(self) -> None:
        """Cut nothing any more."""
        with self._lock:
            self._point = None

    def _accept(self) -> None:
        while not self._over:
            if select.select([self._listener], [], [], POLL_SECONDS)[0]:
                client, _ = self._listener.accept()
                if self.away:
                    client.close()
                else:
                    self._spawn(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.target) as server:
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            came = b""
            while not self._over:
                for source in select.select([client, server], [], [], POLL_SECONDS)[0]:
                    try:
                        data = source.recv(PIECE)
                        if not data:
                            return
                        if source is server:
                            client.sendall(data)
                            continue
                        came += data
                        if self._is_request(came):
                            point = self._point_for(came)
                            if point is not None:
                                self._cut(point, came, client, server)
                                return
                            server.sendall(came)
                            came = b""
                    except OSError:
                        return

    def _point_for(self, request: bytes) -> str | None:
        with self._lock:
            self.exchanges += 1
            if self._point is None or self._marker not in request:
                return None
            if self._skip:
                self._skip -= 1
                return None
            point, self._point = self._point, None
            self.cuts += 1
            return point

    def _cut(self, point: str, request: bytes, client: socket.socket, server: socket.socket) -> None:
        if point == "before the request":
            return
        server.sendall(request[: len(request) // 2] if point == "in the request" else request)
        if point in ("before the answer", "in the answer"):
            server.settimeout(PATIENCE_SECONDS)
            answer = b""
            while not self._is_answer(answer):
                piece = server.recv(PIECE)
                assert piece, "the server itself cut the connection"
                answer += piece
            if point == "in the answer":
                client.sendall(answer[: len(answer) // 2])

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()


def size_of_request(came: bytes) -> int:
    """The size of the first HTTP message in these bytes; 0 if it is not complete yet. Clients send head and body apart,
    and a server carries out only a complete request."""
    head, end, _ = came.partition(b"\r\n\r\n")
    if not end:
        return 0
    length = LENGTH.search(head)
    size = len(head) + len(end) + (int(length[1]) if length else 0)
    return size if size <= len(came) else 0
