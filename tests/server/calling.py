"""A board behind a server, and callers of it: who they are is their key, what they say is a path and a body."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from dibs.board import Board
from dibs.testing.harness import Harness
from tests.kit import sqlite
from tests.kit.http import Host
from tests.kit.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from dibs.testing.clock import Clock


class Reply(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class Caller:
    """Somebody with a key."""

    def __init__(self, url: str, key: str | None) -> None:
        self._address = urlsplit(url)
        self.key = key

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        data = None if body is None else json.dumps(body).encode()
        return self.ask("POST", path, data, **headers)

    def ask(self, method: str, path: str, data: bytes | None = None, **headers: str) -> Reply:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key is not None:
            said["Authorization"] = f"Bearer {self.key}"
        if data is not None:
            said.setdefault("Content-Type", "application/json")
        connection = HTTPConnection(self._address.hostname or "", self._address.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, data, said)
            response = connection.getresponse()
            found = response.read()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, json.loads(found) if found else None, told)
        finally:
            connection.close()


class Served:
    """A board, its clock, and who may call its server."""

    def __init__(self, url: str, key: str, board: Board, clock: Clock) -> None:
        self.url, self.board, self.clock = url, board, clock
        self.admin = Caller(url, key)
        self.stranger = Caller(url, None)

    def caller(self, role: str, agent: str | None = None) -> Caller:
        """Somebody with a new key."""
        return Caller(self.url, self.board.create_key(role, agent=agent)[1])


class Reused:
    """One server for many tests, each of which finds its board as it was at first: a server takes longer to make than
    most tests take."""

    def __init__(self, server: Served, folder: Path) -> None:
        self._server = server
        self._empty = str(folder / "empty.db")
        server.board.backup(self._empty)

    def anew(self) -> Served:
        self._server.board.restore(self._empty)
        return self._server


@contextmanager
def serving(host: Host, harness: Harness) -> Iterator[Served]:
    """The board of a harness, its clock standing still."""
    harness.clock.freeze()
    url, key = host.serve(harness.recipe())
    try:
        yield Served(url, key, harness.board(), harness.clock)
    finally:
        host.stop(url)


@contextmanager
def reused_server(host: Host, folder: Path) -> Iterator[Reused]:
    with sqlite.harness(folder) as harness, serving(host, harness) as server:
        yield Reused(server, folder)
