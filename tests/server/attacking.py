"""Callers of a server under test: each with a key of its own, and nothing between them and the wire."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dibs.board import Board
from tests.kit import sqlite
from tests.kit.http import Host
from tests.kit.sqlite import SqliteHarness
from tests.kit.waiting import PATIENCE_SECONDS

NOTHING = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Answer:
    def __init__(self, status: int, headers: http.client.HTTPMessage, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The stable code of a refusal."""
        assert self.headers.get_content_type() == "application/problem+json", (self.status, self.body)
        found: str = self.json["code"]
        return found


class Caller:
    """Sends requests as they are told, wrong ones too."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url, self.key = url, key
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 80

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        sent = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        data = raw if body is None else json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, body=data, headers=sent)
            found = connection.getresponse()
            # A stream goes on for as long as somebody listens.
            is_stream = found.headers.get_content_type() == "text/event-stream"
            return Answer(found.status, found.headers, b"" if is_stream else found.read())
        finally:
            connection.close()

    def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        answer = self(method, path, body, **options)
        assert answer.status == 200, (method, path, answer.status, answer.body)
        return answer.json

    def bytes(self, data: bytes) -> bytes:
        """Everything that comes back on a connection that sends just this."""
        with socket.create_connection((self.host, self.port), PATIENCE_SECONDS) as connection:
            try:
                connection.sendall(data)
            except OSError:
                pass  # closed on us, which is an answer
            found = b""
            try:
                while piece := connection.recv(65536):
                    found += piece
            except ConnectionResetError:
                pass
            return found


class Served:
    """A board behind a server, and the board itself, reached past the server."""

    def __init__(self, harness: SqliteHarness, url: str, admin: str) -> None:
        self.harness, self.url = harness, url
        self.board: Board = harness.board()
        self.admin = Caller(url, admin)
        self.nobody = Caller(url)

    def caller(self, role: str, agent: str | None = None, **options: Any) -> Caller:
        """Somebody with a new key."""
        return Caller(self.url, self.board.create_key(role, agent=agent, **options)[1])


@contextmanager
def served(host: Host, folder: Path) -> Iterator[Served]:
    with sqlite.harness(folder) as harness:
        url, key = host.serve(harness.recipe())
        try:
            yield Served(harness, url, key)
        finally:
            host.stop(url)


@contextmanager
def heard(host: str, port: int = 0, *, answer: bytes = NOTHING) -> Iterator[tuple[int, list[bytes]]]:
    """Another program of this machine, what it answers, and what it is sent."""
    found: list[bytes] = []
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:

        def listen() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    found.append(connection.recv(65536))
                    connection.sendall(answer)

        threading.Thread(target=listen, daemon=True).start()
        yield listener.getsockname()[1], found
