"""A proxy before a PostgreSQL server that cuts a connection at the worst moment: a call was made, its answer is lost.

with CuttingProxy(server.url("board")) as proxy:
    proxy.cut(b"dibs.claim")                # the next call that says so is done, and nobody hears of it
    proxy.cut(b"dibs.claim", done=False)    # it never arrives
    proxy.away = True                       # nobody is let in any more
"""

from __future__ import annotations

import select
import socket
import threading
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

#: What a server says when it has done all that it was asked, and no transaction is open.
AT_REST = b"Z\x00\x00\x00\x05I"
PIECE = 1 << 16
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 30.0


class CuttingProxy:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._url = parts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._marker: bytes | None = None
        self._done = True
        self._lock = threading.Lock()
        self._over = False
        self._threads: list[threading.Thread] = []
        self.away = False
        #: How often a connection was cut.
        self.cuts = 0

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        self._listener.close()

    def url(self, database: str | None = None) -> str:
        port = self._listener.getsockname()[1]
        user = f"{self._url.username or 'postgres'}:{self._url.password}" if self._url.password else self._url.username
        path = self._url.path if database is None else f"/{database}"
        return self._url._replace(netloc=f"{user or 'postgres'}@127.0.0.1:{port}", path=path).geturl()

    def cut(self, marker: bytes, *, done: bool = True) -> None:
        """Cut the next connection on which these bytes are sent: once it was `done`, or before it arrives."""
        self._marker, self._done = marker, done

    def _accept(self) -> None:
        while not self._over:
            if select.select([self._listener], [], [], POLL_SECONDS)[0]:
                client, _ = self._listener.accept()
                if self.away:
                    client.close()
                else:
                    self._spawn(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            while not self._over:
                for source in select.select([client, server], [], [], POLL_SECONDS)[0]:
                    try:
                        data = source.recv(PIECE)
                        if not data or (source is client and self._is_cut(data, server)):
                            return
                        (server if source is client else client).sendall(data)
                    except OSError:
                        return

    def _is_cut(self, data: bytes, server: socket.socket) -> bool:
        with self._lock:
            if self._marker is None or self._marker not in data:
                return False
            self._marker = None
        if self._done:
            server.sendall(data)
            server.settimeout(PATIENCE_SECONDS)
            answer = b""
            while not answer.endswith(AT_REST):
                piece = server.recv(PIECE)
                assert piece, "the server itself cut the connection"
                answer += piece
        self.cuts += 1
        return True

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()
