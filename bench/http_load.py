"""A light HTTP client for measurements: many connections in one thread, so that the machine is left to the server.

`closed_loop`: each client sends its next request when it has the answer to the last. `open_loop`: requests are sent at
given instants, whether or not earlier ones were answered, so that a slow answer delays no other request.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dibs.board import connect
from dibs.model import AGENT

RECEIVED_MAX = 1 << 18
PATIENCE_SECONDS = 30.0
HEAD_END = b"\r\n\r\n"


class Served(NamedTuple):
    """A `dibs serve` of a board, and the secret of an agent's key."""

    url: str
    key: str
    pid: int


@contextlib.contextmanager
def served(store: str, *words: str, variables: Mapping[str, str] = {}) -> Iterator[Served]:
    """`variables` are more of its environment: with PYTHONPATH, the server of another version."""
    with connect(store, seeded=False) as board:
        key = board.create_key(AGENT, agent="coder")[1]
    with tempfile.TemporaryDirectory() as home, open(os.path.join(home, "log"), "w") as log:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "LOGNAME": "bench", "DIBS_STORE": store, **variables}
        command = [sys.executable, "-m", "dibs.cli.main", "serve", "--port", "0", "--json", *words]
        with subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=log) as process:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            try:
                yield Served(told["serving"]["url"], key, process.pid)
            finally:
                process.terminate()


def cpu_seconds(pid: int) -> float:
    """The time that a process has computed: other programs on the machine hardly change it."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(server: Served, path: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {urlsplit(server.url).netloc}\r\nAuthorization: Bearer {server.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def get(server: Served, path: str) -> bytes:
    host = urlsplit(server.url).netloc
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {server.key}\r\n\r\n".encode()


class Client:
    """One connection, and the answer that it waits for."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0
        self._received = b""
        self._missing = -1

    def send(self, data: bytes) -> None:
        self._received, self._missing = b"", -1
        self.sent_at = time.perf_counter()
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """The whole answer; None as long as it is incomplete."""
        piece = self.socket.recv(RECEIVED_MAX)
        assert piece, "the server closed the connection"
        self._received += piece
        if self._missing < 0:
            head, end, _ = self._received.partition(HEAD_END)
            if not end:
                return None
            start = head.lower().index(b"content-length:") + len(b"content-length:")
            self._missing = len(head) + len(end) + int(head[start:].split(b"\r\n", 1)[0])
        return self._received if len(self._received) >= self._missing else None

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        while (answer := self.receive()) is None:
            pass
        return answer


class Outcome(NamedTuple):
    """The seconds that each answer took, how many answers there were in a second, and those that were no 200."""

    seconds: list[float]
    per_second: float
    refused: int

    def share(self, share: float) -> float:
        """In milliseconds: so many took less."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def closed_loop(url: str, clients: int, seconds: float, next_request: Callable[[int, bytes | None], bytes]) -> Outcome:
    """`next_request` is given the number of a client and the answer to its last request."""
    poller = select.epoll()
    connected = [Client(url) for _ in range(clients)]
    numbers = {client.socket.fileno(): number for number, client in enumerate(connected)}
    taken: list[float] = []
    refused = 0
    began = time.perf_counter()
    end = began + seconds
    for number, client in enumerate(connected):
        poller.register(client.socket, select.EPOLLIN)
        client.send(next_request(number, None))
    waiting = clients
    while waiting:
        ready = poller.poll(PATIENCE_SECONDS)
        assert ready, "the server does not answer"
        for descriptor, _ in ready:
            number = numbers[descriptor]
            client = connected[number]
            answer = client.receive()
            if answer is None:
                continue
            now = time.perf_counter()
            taken.append(now - client.sent_at)
            refused += not answer.startswith(b"HTTP/1.1 200")
            if now < end:
                client.send(next_request(number, answer))
            else:
                waiting -= 1
    for client in connected:
        client.socket.close()
    poller.close()
    return Outcome(taken, len(taken) / (time.perf_counter() - began), refused)


class Due(NamedTuple):
    """A request for a given instant; `name` is what its time is counted under. `then` makes another request of the
    answer."""

    at: float
    number: int
    name: str
    data: bytes
    then: Callable[[bytes], Due | None] | None = None


def open_loop(url: str, schedule: list[Due]) -> dict[str, Outcome]:
    """The outcome of the requests of each name. The time of an answer counts from when its request was due."""
    poller = select.epoll()
    idle: list[Client] = []
    busy: dict[int, tuple[Client, Due]] = {}
    taken: dict[str, list[float]] = {}
    refused: dict[str, int] = {}
    heapq.heapify(schedule)
    began = time.perf_counter()
    while schedule or busy:
        left = schedule[0].at - (time.perf_counter() - began) if schedule else PATIENCE_SECONDS
        if left <= 0:
            due = heapq.heappop(schedule)
            client = idle.pop() if idle else Client(url)
            if client.socket.fileno() not in busy:
                with contextlib.suppress(FileExistsError):
                    poller.register(client.socket, select.EPOLLIN)
            busy[client.socket.fileno()] = client, due
            client.send(due.data)
            continue
        for descriptor, _ in poller.poll(left):
            if descriptor not in busy:
                # The server closes connections that were idle for a while.
                gone = next(client for client in idle if client.socket.fileno() == descriptor)
                idle.remove(gone)
                poller.unregister(descriptor)
                gone.socket.close()
                continue
            client, due = busy[descriptor]
            answer = client.receive()
            if answer is None:
                continue
            now = time.perf_counter() - began
            taken.setdefault(due.name, []).append(now - due.at)
            refused[due.name] = refused.get(due.name, 0) + (not answer.startswith(b"HTTP/1.1 200"))
            del busy[descriptor]
            idle.append(client)
            following = None if due.then is None else due.then(answer)
            if following is not None:
                heapq.heappush(schedule, following)
    for client in idle:
        client.socket.close()
    spent = time.perf_counter() - began
    return {name: Outcome(found, len(found) / spent, refused[name]) for name, found in taken.items()}
