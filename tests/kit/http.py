"""Boards behind a server under test: any harness, with its data reached over HTTP.

The server is another process; with several hosts, several servers work on the same data, and each handle talks to one
of them, by turns.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from itertools import count

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.http.store import HttpStore
from dibs.testing.harness import Harness, Wire
from dibs.testing.proxy import CuttingProxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_turns = count(os.getpid())


def open_board(*, servers: Sequence[tuple[str, str]], settings: dict[str, Any] | None = None) -> Board:
    """A handle on the board behind these servers, by one of them."""
    chosen = DEFAULTS.replace(**(settings or {}))
    url, key = servers[next(_turns) % len(servers)]
    return Board(HttpStore(url, chosen, key), chosen, actor="tester")


class Host:
    """A process that serves boards: see `http_host`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.http_host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer("ready")

    def serve(self, recipe: dict[str, Any], port: int = 0, hosts: Sequence[str] = (), **asked: Any) -> tuple[str, str]:
        """The URL and an admin's key of a new server for the board of this recipe."""
        answer = self._ask({"serve": {"recipe": recipe, "port": port, "hosts": list(hosts), **asked}}, "port")
        return f"http://127.0.0.1:{answer['port']}", answer["key"]

    def stop(self, url: str) -> None:
        self._ask({"stop": int(url.rpartition(":")[2])}, "stopped")

    def stop_process(self) -> None:
        """Its servers answer nothing, and close no connection."""
        self._process.send_signal(signal.SIGSTOP)

    def continue_process(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, order: dict[str, Any], expected: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer(expected)

    def _answer(self, expected: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        if expected not in found:
            raise AssertionError(f"the host said {found} where {expected!r} was due")
        return found


class HttpHarness(Harness):
    def __init__(self, behind: Harness, hosts: Sequence[Host], *, sweeps: bool = False) -> None:
        """`sweeps`: its servers do so by themselves, as they do outside of tests."""
        self.behind = behind
        self._hosts = hosts
        self._served = [(host, host.serve(behind.recipe(), sweeps=sweeps)) for host in hosts]
        kwargs = {
            "servers": [server for _, server in self._served],
            "settings": behind.recipe()["kwargs"].get("settings"),
        }
        super().__init__("tests.kit.http:open_board", kwargs, behind.clock, behind.folder)

    def with_settings(self, **settings: Any) -> Harness:
        return HttpHarness(self.behind.with_settings(**settings), self._hosts)

    def as_in_use(self) -> HttpHarness:
        return HttpHarness(self.behind.with_settings(), self._hosts, sweeps=True)

    def elsewhere(self) -> HttpHarness:
        return HttpHarness(self.behind.elsewhere(), self._hosts)

    @contextmanager
    def wire(self) -> Iterator[Wire]:
        host, kwargs = self._hosts[0], self.recipe()["kwargs"]
        with CuttingProxy.before_http() as proxy:
            url, key = host.serve(self.behind.recipe(), hosts=[proxy.host])
            proxy.target = ("127.0.0.1", int(url.rpartition(":")[2]))
            try:
                with open_board(**{**kwargs, "servers": [(proxy.url(url), key)]}) as board:
                    yield Wire(board, proxy)
            finally:
                host.stop(url)

    def close(self) -> None:
        super().close()
        for host, (url, _) in self._served:
            host.stop(url)
        self.behind.close()
