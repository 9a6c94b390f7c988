"""A light HTTP client for measurements: many connections in one thread, so that the machine is left to the server.

`closed_loop`: each client sends its next request when it has the answer to the last. `open_loop`: requests are sent at
given instants, whether or not earlier ones were answered, so that a slow answer delays no other request.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import math
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
def served(store: str, *words: str, variables: Mapping[str, str] = {}, files: int | None = None) -> Iterator[Served]:
    """`variables` are more of its environment: with PYTHONPATH, the server of another version. `files`: its limit of
    open files."""
    with connect(store, seeded=False) as board:
        key = board.create_key(AGENT, agent="coder")[1]
    with tempfile.TemporaryDirectory() as home, open(os.path.join(home, "log"), "w") as log:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "LOGNAME": "bench", "DIBS_STORE": store, **variables}
        command = [sys.executable, "-m", "dibs.cli.main", "serve", "--port", "0", "--json", *words]
        if files is not None:
            command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
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
    answer. Requests with the same `number` share a connection, if each agent has its own."""

    at: float
    number: int
    name: str
    data: bytes
    then: Callable[[bytes], Due | None] | None = None


def open_loop(
    url: str,
    schedule: list[Due],
    *,
    own_connections: bool = False,
    each_second: Callable[[], object] | None = None,
    until: float = math.inf,
) -> dict[str, Outcome]:
    """The outcome of the requests of each name. The time of an answer counts from when its request was due.

    With `own_connections`, who has no connection opens one, and keeps it until the server closes it; else requests take
    any connection that is idle. What is not sent at the instant `until` stays in the schedule.
    """
    loop = _OpenLoop(url, own_connections)
    heapq.heapify(schedule)
    seconds = 0
    while schedule or loop.busy:
        now = loop.now()
        if each_second is not None and now > seconds:
            seconds = int(now) + 1
            each_second()
        is_over = now > until
        if is_over and not loop.busy:
            break
        if schedule and schedule[0].at <= now and not is_over:
            loop.send(heapq.heappop(schedule))
            continue
        for following in loop.receive(schedule[0].at - now if schedule and not is_over else PATIENCE_SECONDS):
            heapq.heappush(schedule, following)
    return loop.close()


class _OpenLoop:
    def __init__(self, url: str, own_connections: bool) -> None:
        self.busy: dict[int, tuple[Client, Due]] = {}
        self._url, self._own = url, own_connections
        self._poller = select.epoll()
        self._idle: dict[int, list[Client]] = {}
        #: By the descriptor of a connection that is idle: whose it is.
        self._owners: dict[int, int] = {}
        self._taken: dict[str, list[float]] = {}
        self._refused: dict[str, int] = {}
        self._began = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._began

    def send(self, due: Due) -> None:
        idle = self._idle.get(self._owner(due))
        if idle:
            client = idle.pop()
            del self._owners[client.socket.fileno()]
        else:
            client = self._connected()
        self._send(client, due)

    def receive(self, seconds: float) -> list[Due]:
        """Wait for answers; what is due because of them."""
        following = []
        for descriptor, _ in self._poller.poll(max(0.0, seconds)):
            if descriptor not in self.busy:
                # The server closes connections that were idle for a while.
                self._drop_idle(descriptor)
                continue
            client, due = self.busy[descriptor]
            try:
                answer = client.receive()
            except (ConnectionError, AssertionError):
                # It was closed while the request was under way, and the server did not see the request.
                self._forget(client)
                self._send(self._connected(), due)
                continue
            if answer is not None:
                more = self._answered(client, due, answer)
                following += [] if more is None else [more]
        return following

    def close(self) -> dict[str, Outcome]:
        for clients in self._idle.values():
            for client in clients:
                client.socket.close()
        self._poller.close()
        spent = self.now()
        return {name: Outcome(found, len(found) / spent, self._refused[name]) for name, found in self._taken.items()}

    def _owner(self, due: Due) -> int:
        return due.number if self._own else 0

    def _connected(self) -> Client:
        client = Client(self._url)
        self._poller.register(client.socket, select.EPOLLIN)
        return client

    def _send(self, client: Client, due: Due) -> None:
        self.busy[client.socket.fileno()] = client, due
        try:
            client.send(due.data)
        except ConnectionError:
            self._forget(client)
            self._send(self._connected(), due)

    def _forget(self, client: Client) -> None:
        del self.busy[client.socket.fileno()]
        self._poller.unregister(client.socket)
        client.socket.close()

    def _drop_idle(self, descriptor: int) -> None:
        clients = self._idle[self._owners.pop(descriptor)]
        gone = next(client for client in clients if client.socket.fileno() == descriptor)
        clients.remove(gone)
        self._poller.unregister(descriptor)
        gone.socket.close()

    def _answered(self, client: Client, due: Due, answer: bytes) -> Due | None:
        self._taken.setdefault(due.name, []).append(self.now() - due.at)
        self._refused[due.name] = self._refused.get(due.name, 0) + (not answer.startswith(b"HTTP/1.1 200"))
        del self.busy[client.socket.fileno()]
        self._idle.setdefault(self._owner(due), []).append(client)
        self._owners[client.socket.fileno()] = self._owner(due)
        return None if due.then is None else due.then(answer)
