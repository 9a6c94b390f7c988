"""What one key can take from the others: a heartbeat and a read of one item while one key does its worst, in nine ways.

    python -m bench neighbours --seconds 4 --rounds 1
    python -m bench neighbours --ways streams,views --source ../other/src

Each way has a server of its own on a copy of one board. The neighbour has a key of its own, and asks at fixed instants,
or when it has the last answer. First nobody else asks, and then a process with one other key does what the way says.
The bound is five times the quiet p99, or 100 ms if that is more. What is not answered with 200 within ten seconds is
an error. With `--source`, the server is that of another version. Times are in milliseconds, medians of the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import select
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bench.http_load import Served, get, request, served
from dibs.board import connect
from dibs.model import AGENT

ITEMS, BATCH = 12_000, 1000
TIMES_QUIET, BOUND_MS = 5, 100.0
#: How often the neighbour asks for each of its two answers.
EVERY_SECONDS = 0.04
PATIENCE_SECONDS = 10.0
#: Of a server with so few, one key uses all that it is given.
FEW_FILES = 256
RECEIVED_MAX = 1 << 18
READY = "ready"
CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    " -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
)

#: The requests of the other key: made once, since some of them are large.
Requests = Callable[[Served], list[bytes]]


class Way(NamedTuple):
    """`clients` connections send these requests, each as soon as the last was answered; or, if they are `silent`, once,
    and read nothing."""

    what: str
    clients: int
    requests: Requests
    silent: bool = False
    tls: bool = False
    files: int | None = None


class Asked(NamedTuple):
    """The milliseconds of the answers, and how many failed."""

    heartbeat: list[float]
    show: list[float]
    errors: int


def _adding(items: list[dict[str, Any]]) -> Requests:
    return lambda server: [request(server, "/v1/add_many", {"items": items})]


def _heavy(server: Served) -> list[bytes]:
    return [request(server, "/v1/items", {"title": "x", "payload": {"a": ["x"] * 99_000}})]


def _sessions(server: Served) -> list[bytes]:
    starting = request(server, "/v1/sessions", {"agent": "coder", "meta": {"a": "x" * 15_000}})
    return [starting, get(server, "/v1/sessions?limit=1000")]


def _replays(server: Served) -> list[bytes]:
    return [get(server, "/api/events").replace(b"\r\n\r\n", b"\r\nLast-Event-ID: 0\r\n\r\n")]


LABELLED = [{"title": "x", "labels": [f"label-{number}" for number in range(60)]}] * BATCH
WAYS = {
    "tls": Way(
        "it has 400 TLS connections that send nothing", 400, lambda _: [b""], silent=True, tls=True, files=FEW_FILES
    ),
    "payloads": Way("it adds items of 0.5 MB, 30 at a time", 30, _heavy),
    "batches": Way("it adds 1,000 items with 60 labels, 4 times at once", 4, _adding(LABELLED)),
    "lists": Way(
        "it lists all items, 8 times at once",
        8,
        lambda server: [get(server, "/v1/items?limit=100000&bytes_max=16000000")],
    ),
    "views": Way("it reads the view, 8 times at once", 8, lambda server: [get(server, "/v1/view")]),
    "streams": Way("it has 500 streams from event 0", 500, _replays, silent=True),
    "sessions": Way("it starts sessions and lists them, 8 times at once", 8, _sessions),
    "bodies": Way("it sends 45,000 invalid items, 8 times at once", 8, _adding([{}] * 45_000)),
    "connections": Way(
        "it has 400 connections with heartbeats",
        400,
        lambda server: [request(server, "/v1/heartbeat", {"session": "other"})],
        files=FEW_FILES,
    ),
}


def measure(arguments: Sequence[str] = ()) -> tuple[str, list[dict[str, object]]]:
    parser = argparse.ArgumentParser(prog="python -m bench neighbours")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--source")
    asked = parser.parse_args(arguments)
    found: dict[str, list[tuple[Asked, Asked]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        has_openssl = shutil.which("openssl") is not None
        if has_openssl:
            subprocess.run(CERTIFICATE.split(), cwd=folder, check=True, capture_output=True)
        board = os.path.join(folder, "full.db")
        _fill(board)
        for _ in range(asked.rounds):
            for name in asked.ways.split(","):
                if has_openssl or not WAYS[name].tls:
                    found.setdefault(name, []).append(_round(folder, board, name, asked.seconds, asked.source))
    rows = [_row(WAYS[name], rounds) for name, rounds in found.items()]
    rows.append({"one key": "all", **dict.fromkeys(COLUMNS), "errors": sum(int(str(row["errors"])) for row in rows)})
    return "A heartbeat and a read of one item while another key does its worst (ms)", rows


COLUMNS = ("heartbeat, quiet p99", "heartbeat p99", "show, quiet p99", "show p99", "of the bound", "errors")


def _row(way: Way, rounds: list[tuple[Asked, Asked]]) -> dict[str, object]:
    figures = []
    for quiet, during in rounds:
        p99s = [_p99(one) for one in (quiet.heartbeat, during.heartbeat, quiet.show, during.show)]
        shares = (p99s[at + 1] / max(BOUND_MS, TIMES_QUIET * p99s[at]) for at in (0, 2))
        figures.append((*p99s, max(shares)))
    medians = [statistics.median(column) for column in zip(*figures, strict=True)]
    errors = sum(during.errors for _, during in rounds)
    return {"one key": way.what, **dict(zip(COLUMNS, (*medians, errors), strict=True))}


def _p99(found: list[float]) -> float:
    ordered = sorted(found)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def _fill(path: str) -> None:
    """Each item has two events. One is free for the neighbour."""
    with connect(path, create=True, seeded=False) as board:
        for start in range(0, ITEMS, BATCH):
            ids = [f"item-{start + n}" for n in range(BATCH)]
            board.add_many({"id": id, "title": "x", "body": "b" * 200} for id in ids)
            board.bulk("park", items=[{"id": id} for id in ids])
        board.add("kept", id="mine")


def _round(folder: str, full: str, name: str, seconds: float, source: str | None) -> tuple[Asked, Asked]:
    way = WAYS[name]
    path = os.path.join(folder, f"{name}.db")
    shutil.copy(full, path)
    with connect(path, seeded=False) as board:
        neighbour = board.create_key(AGENT, agent="neighbour")[1]
    words = ("--tls-cert", f"{folder}/cert.pem", "--tls-key", f"{folder}/key.pem") if way.tls else ()
    variables = {} if source is None else {"PYTHONPATH": os.path.abspath(source)}
    try:
        with served(path, "--quiet", *words, variables=variables, files=way.files) as server:
            mine = Neighbour(server.url, neighbour, keeps=way.files is None)
            mine.start()
            quiet = mine.ask_for(seconds)
            with _attacked(name, server):
                return quiet, mine.ask_for(seconds)
    finally:
        for suffix in ("", "-wal", "-shm", "-lock", "-bell"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + suffix)


@contextlib.contextmanager
def _attacked(name: str, server: Served) -> Iterator[None]:
    """While another process does what the way says."""
    order = json.dumps({"name": name, "server": server._asdict()})
    command = [sys.executable, "-m", "bench.neighbours", order]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == READY
            yield
        finally:
            process.kill()


class Neighbour:
    """Two threads with a connection each, or with one for each request: where connections are what is taken."""

    def __init__(self, url: str, key: str, *, keeps: bool) -> None:
        self._address = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._keeps = keeps

    def start(self) -> None:
        connection = self._connected()
        for path, body in (("/v1/sessions", {"agent": "neighbour", "id": "me"}), ("/v1/items/mine/claim", SESSION)):
            assert self._ask(connection, "POST", path, body), path

    def ask_for(self, seconds: float) -> Asked:
        found: dict[str, list[float]] = {"heartbeat": [], "show": []}
        errors: list[int] = []

        def ask(name: str, method: str, path: str, body: dict[str, str] | None) -> None:
            errors.append(self._ask_at_intervals(found[name], seconds, method, path, body))

        threads = [
            threading.Thread(target=ask, args=("heartbeat", "POST", "/v1/heartbeat", SESSION)),
            threading.Thread(target=ask, args=("show", "GET", "/v1/items/mine", None)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return Asked(found["heartbeat"], found["show"], sum(errors))

    def _ask_at_intervals(
        self, found: list[float], seconds: float, method: str, path: str, body: dict[str, str] | None
    ) -> int:
        connection, errors = self._connected(), 0
        began = time.perf_counter()
        due = 0.0
        while due < seconds:
            time.sleep(max(0.0, began + due - time.perf_counter()))
            if not self._keeps:
                connection.close()
            sent = time.perf_counter()
            good = self._ask(connection, method, path, body)
            if not good:
                errors += 1
                connection.close()
            answered = time.perf_counter()
            found.append(1000 * (answered - sent))
            due = max(due + EVERY_SECONDS, answered - began)
        connection.close()
        return errors

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=PATIENCE_SECONDS, context=context)

    def _ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: dict[str, str] | None) -> bool:
        try:
            connection.request(method, path, None if body is None else json.dumps(body), self._headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return False
        return answer.status == 200


SESSION = {"session": "me"}


# In the process of the other key


class Client:
    """A connection that is opened again whenever the server closes it."""

    def __init__(self, server: Served, requests: list[bytes], number: int, *, silent: bool) -> None:
        parts = urlsplit(server.url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._requests, self._next, self._silent = requests, number, silent
        self._open()

    def _open(self) -> None:
        self.socket = socket.create_connection(self._address, PATIENCE_SECONDS)
        self._send()

    def _send(self) -> None:
        self._received, self._missing = b"", -1
        self._unsent = self._requests[self._next % len(self._requests)]
        self._next += 1
        self.socket.setblocking(False)

    def go_on(self, mask: int) -> None:
        try:
            if mask & select.EPOLLOUT and self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
            if mask & ~select.EPOLLOUT and not self._silent:
                self._receive()
        except BlockingIOError:
            pass

    @property
    def mask(self) -> int:
        reading = select.EPOLLRDHUP if self._silent else select.EPOLLIN
        return reading | (select.EPOLLOUT if self._unsent else 0)

    def _receive(self) -> None:
        piece = self.socket.recv(RECEIVED_MAX)
        if not piece:
            raise ConnectionResetError
        if self._missing < 0:
            self._received += piece
            head, end, rest = self._received.partition(b"\r\n\r\n")
            if not end:
                return
            start = head.lower().index(b"content-length:") + len(b"content-length:")
            self._missing = int(head[start:].split(b"\r\n", 1)[0]) - len(rest)
        else:
            self._missing -= len(piece)
        if self._missing <= 0:
            self._send()

    def reopen(self) -> None:
        self.socket.close()
        self._open()


def attack(name: str, server: Served) -> None:
    """Until this process is killed."""
    way = WAYS[name]
    requests = way.requests(server)
    if name == "connections":
        _ask_once(server, request(server, "/v1/sessions", {"agent": "coder", "id": "other"}))
    poller = select.epoll()
    clients: dict[int, Client] = {}

    def add(client: Client) -> None:
        clients[client.socket.fileno()] = client
        poller.register(client.socket, client.mask)

    for number in range(way.clients):
        with contextlib.suppress(OSError):
            add(Client(server, requests, number, silent=way.silent))
    print(READY, flush=True)
    while True:
        for descriptor, mask in poller.poll(1.0):
            client = clients[descriptor]
            try:
                if mask & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                    raise ConnectionResetError
                client.go_on(mask)
                poller.modify(client.socket, client.mask)
            except OSError:
                del clients[descriptor]
                poller.unregister(descriptor)
                time.sleep(0.001)
                with contextlib.suppress(OSError):
                    client.reopen()
                    add(client)


def _ask_once(server: Served, data: bytes) -> None:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_SECONDS) as connection:
        connection.sendall(data)
        assert b" 200 " in connection.recv(RECEIVED_MAX).split(b"\r\n", 1)[0]


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    attack(told["name"], Served(**told["server"]))
