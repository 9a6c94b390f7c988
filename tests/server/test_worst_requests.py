"""The worst that one request can do: what it costs the server, and how long it holds up everybody else.

A real `dibs serve`, one caller who means no good, and another one who keeps asking whether the server is alive. How
long the second caller waits is measured in CPU time of the server: time on the clock would also count other programs.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.check import BATCH_MAX, JSON_BYTES_MAX
from dibs.model import AGENT, VIEWER
from dibs.server.auth.guard import BODY_BYTES_MAX
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.attacking import Caller
from tests.server.process import Serving, board_of, serving

HELD_UP_SECONDS_MAX = 0.25
MEMORY_BYTES_MAX = 50_000_000
#: One look may catch the server at something else. A request that is as bad as it seems is so each time.
ROUNDS = 4
LARGE, SMALL = BODY_BYTES_MAX - 100, 1_000_000


def filled(begin: bytes, piece: bytes, end: bytes, size: int) -> bytes:
    return begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end


def full_batch(size: int) -> bytes:
    """As many items as there may be, of which only the last is wrong."""
    one = b'{"title":"t","body":"' + b"b" * (size // BATCH_MAX - 50) + b'"},'
    return b'{"items":[' + one * (BATCH_MAX - 1) + b'{"title":""}]}'


def many_keys(size: int) -> bytes:
    return b"{" + b",".join(b'"k%07d":1' % number for number in range(size // 13)) + b"}"


#: Bodies of about a size: wide ones, deep ones, long ones.
BODIES: dict[str, Callable[[int], bytes]] = {
    "numbers": lambda size: filled(b'{"items":[', b"1,", b"1]}", size),
    "objects": lambda size: filled(b'{"items":[', b"{},", b"{}]}", size),
    "just few enough": lambda size: filled(b'{"items":[', b"{},", b"{}]}", min(size, 200_000)),
    "strings": lambda size: filled(b'{"items":[', b'"",', b'""]}', size),
    "strings without separators": lambda size: filled(b'{"title":', b'""', b"}", size),
    "separators in a string": lambda size: filled(b'{"title":"', b",[{", b'"}', size),
    "arrays in arrays": lambda size: b"[" * size,
    "objects in objects": lambda size: filled(b"", b'{"a":', b"", size),
    "one string": lambda size: filled(b'{"title":"', b"a", b'"}', size),
    "one string of wide characters": lambda size: filled('{"title":"\U0001f600'.encode(), b"a", b'"}', size),
    "escapes": lambda size: filled(b'{"title":"', b"\\u0041", b'"}', size),
    "backslashes and separators": lambda size: filled(b'{"title":"', b'\\\\\\",,,', b'"}', size),
    "keys": many_keys,
    "a full batch": full_batch,
    "holding": lambda size: b'{"session":"s","holding":' + many_keys(min(size, 1_000_000)) + b"}",
    "numbers of many digits": lambda size: filled(b'{"items":[', b"7" * 4299 + b",", b"1]}", size),
    "a payload of long numbers": lambda size: filled(
        b'{"title":"t","payload":{"a":[', b"7" * 4200 + b",", b"1]}}", max(size, JSON_BYTES_MAX + 100_000)
    ),
    "one number": lambda size: filled(b'{"priority":', b"7", b"}", size),
    "one fraction": lambda size: filled(b'{"priority":0.', b"7", b"}", size),
    "blanks": lambda size: filled(b'{"title":', b" ", b"1}", size),
}
PATHS = {"holding": "/v1/heartbeat"} | dict.fromkeys(("a full batch", "numbers", "objects"), "/v1/add_many")


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is read in /proc")


class Prober:
    """Asks for a sign of life again and again; the most CPU time that the server took before it gave one."""

    def __init__(self, caller: Caller, server: Serving) -> None:
        self._stat = Path(f"/proc/{server.process.pid}/stat")
        self._connection = socket.create_connection((caller.host, caller.port), PATIENCE_SECONDS)
        self._request = f"GET /livez HTTP/1.1\r\nHost: {caller.host}:{caller.port}\r\n\r\n".encode()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask_on, daemon=True)
        self.longest = 0.0

    def __enter__(self) -> Prober:
        self._ask()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._connection.close()

    def _ask_on(self) -> None:
        while not self._ended.is_set():
            self.longest = max(self.longest, self._ask())

    def _ask(self) -> float:
        began = self._cpu_seconds()
        self._connection.sendall(self._request)
        answer = b""
        while not answer.endswith(b"}"):
            piece = self._connection.recv(65536)
            assert piece, answer
            answer += piece
        return self._cpu_seconds() - began

    def _cpu_seconds(self) -> float:
        """What all threads of the server took so far, in user mode and in the kernel."""
        user, system = self._stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Memory:
    """What a process had in memory at most, beyond what it had at first."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._at_first = self._before = self._figure("VmRSS")

    def begin(self) -> None:
        (self._folder / "clear_refs").write_text("5")
        self._before = self._figure("VmRSS")

    def most(self) -> int:
        return self._figure("VmHWM") - self._before

    def kept(self) -> int:
        return self._figure("VmRSS") - self._at_first

    def _figure(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("worst"), "--quiet") as found:
        yield found


@pytest.fixture(scope="module")
def callers(server: Serving) -> dict[str, Caller]:
    with board_of(server) as board:
        found = {role: Caller(server.url, board.create_key(role, agent="coder")[1]) for role in (VIEWER, AGENT)}
    found[AGENT].ok("POST", "/v1/sessions", {"agent": "coder", "id": "s"})
    return found


@pytest.fixture(scope="module")
def memory(server: Serving, callers: dict[str, Caller]) -> Memory:
    return Memory(server.process.pid)


@ON_LINUX
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["1MB", "8MB"])
@pytest.mark.parametrize("role", [VIEWER, AGENT])
def test_the_worst_request_of_a_key_holds_nobody_up_and_costs_little(
    server: Serving, callers: dict[str, Caller], memory: Memory, role: str, size: int
) -> None:
    costs = {}
    for name, body in BODIES.items():
        path, data = PATHS.get(name, "/v1/items"), body(size)
        for _ in range(ROUNDS):
            memory.begin()
            with Prober(callers[role], server) as prober:
                answer = callers[role]("POST", path, raw=data)
            assert answer.status == (403 if role == VIEWER else 422), (name, answer.status, answer.body[:200])
            costs[name] = (prober.longest, memory.most())
            if prober.longest < HELD_UP_SECONDS_MAX and memory.most() < MEMORY_BYTES_MAX:
                break
    assert max(held_up for held_up, _ in costs.values()) < HELD_UP_SECONDS_MAX, costs
    assert max(taken for _, taken in costs.values()) < MEMORY_BYTES_MAX, costs
    assert memory.kept() < 2 * MEMORY_BYTES_MAX, "it takes more and more"


@ON_LINUX
def test_the_first_who_asks_for_the_document_holds_nobody_up(tmp_path: Path) -> None:
    """It takes half a second to make, and is made once."""
    longest = []
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with serving(folder, "--quiet") as server, Prober(Caller(server.url), server) as prober:
            found = Caller(server.url).ok("GET", "/openapi.json")
            assert found["paths"]["/v1/items"]
        longest.append(prober.longest)
        if prober.longest < HELD_UP_SECONDS_MAX:
            break
    assert min(longest) < HELD_UP_SECONDS_MAX, longest
