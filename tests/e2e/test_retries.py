"""A command asks a store again that is away for a moment, three times at most, as claim-by-move does."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Self

import psycopg
import pytest

from dibs.store.postgres.connecting import is_nobody_there
from tests.e2e.conftest import Dibs
from tests.server.process import Serving

PROBLEM = {"type": "urn:dibs:problem:STORE_UNAVAILABLE", "code": "STORE_UNAVAILABLE", "detail": "no room", "facts": {}}


class Doorkeeper:
    """Stands before a server and answers so many requests of one path with 503; the others it passes on."""

    def __init__(self, port: int, path: bytes, refuses: int, facts: dict[str, Any]) -> None:
        self._port, self._path, self._left = port, path, refuses
        self._body = json.dumps({**PROBLEM, "facts": facts}).encode()
        self.asked = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        request = client.recv(65536)
        while b"\r\n\r\n" not in request or len(request) < _length(request):
            request += client.recv(65536)
        is_meant = self._path in request.split(b"\r\n")[0]
        self.asked += is_meant
        if is_meant and self._left:
            self._left -= 1
            head = f"HTTP/1.1 503 x\r\nContent-Type: application/problem+json\r\nContent-Length: {len(self._body)}\r\n"
            client.sendall(head.encode() + b"Connection: close\r\n\r\n" + self._body)
            return
        request = request.replace(f"127.0.0.1:{self.port}".encode(), f"127.0.0.1:{self._port}".encode(), 1)
        request = request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        with socket.create_connection(("127.0.0.1", self._port)) as server:
            server.sendall(request)
            while data := server.recv(65536):
                client.sendall(data)


def _length(request: bytes) -> int:
    head, _, _ = request.partition(b"\r\n\r\n")
    lengths = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return len(head) + 4 + sum(lengths)


@pytest.fixture
def served(dibs: Dibs) -> Iterator[tuple[Dibs, int]]:
    dibs.ok("add", "x", "--id", "x")
    with Serving(dibs.folder, "--quiet") as server:
        key = dibs.json("key", "create", "--role", "agent", "--agent", "coder")["key"]["secret"]
        caller = Dibs(dibs.folder, {**dibs.environment, "DIBS_KEY": key})
        caller.ok("session", "start", "--id", "s1", "--agent", "coder", "--store", server.url)
        yield caller, int(server.url.rpartition(":")[2])


def test_a_claim_is_asked_again_while_the_store_is_away(served: tuple[Dibs, int]) -> None:
    """Three times and no more often; what may have been done only if it has a request id."""
    dibs, port = served
    unknown = {"outcome": "unknown"}
    for refuses, words, facts, exit_code, asked in (
        (3, (), {}, 0, 4),
        (4, (), {}, 75, 4),
        (1, (), unknown, 75, 1),
        (1, ("--request-id", "r1"), unknown, 0, 2),
    ):
        with Doorkeeper(port, b"/v1/items/x/claim", refuses, facts) as door:
            done = dibs("claim", "x", *words, environment={"DIBS_STORE": f"http://127.0.0.1:{door.port}"})
            assert (done.returncode, door.asked) == (exit_code, asked), done.stderr


@pytest.fixture
def deserted() -> Iterator[int]:
    """A port at which nobody listens, and nobody else can."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


COUNTED = """
import sys
from dibs.cli.main import main

attempts = []

def count(event, args):
    if event == "socket.connect":
        attempts.append(args[1])

sys.addaudithook(count)
if sys.argv[1].startswith("postgresql:"):
    import psycopg
    plain = psycopg.connect
    psycopg.connect = lambda *args, **said: attempts.append(args) or plain(*args, **said)
code = main([*sys.argv[2:], "--store", sys.argv[1]])
print(len(attempts), code)
"""


@pytest.mark.parametrize("words", [("list",), ("next", "--session", "s1", "--wait", "3s")], ids=["list", "next"])
@pytest.mark.parametrize("url", ["http://127.0.0.1:{}", "postgresql://127.0.0.1:{}/x"], ids=["http", "postgresql"])
def test_a_command_tries_to_connect_four_times_where_nobody_listens(
    dibs: Dibs, deserted: int, url: str, words: tuple[str, ...]
) -> None:
    """The store adds no attempts of its own to those of the command."""
    line = [sys.executable, "-c", COUNTED, url.format(deserted), *words]
    done = subprocess.run(line, cwd=dibs.folder, env=dibs.environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4", "75"], done.stderr


def test_only_a_database_that_is_not_there_is_given_up_at_once() -> None:
    gone = 'connection to server at "10.0.0.1", port 5432 failed: Connection refused\n'
    full = 'connection to server at "10.0.0.2", port 5432 failed: FATAL:  sorry, too many clients already\n'
    said = (gone, full, gone + full, "the connection broke")
    found = [is_nobody_there(psycopg.OperationalError(text)) for text in said]
    assert found == [True, False, False, False]
