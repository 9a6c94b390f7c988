"""Several server processes on one socket and one PostgreSQL: one dies and is replaced, all stop together."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dibs.board import connect, make
from tests.kit.postgres_server import PostgresServer
from tests.server.attacking import Answer, Caller
from tests.server.process import Serving


class Browser:
    """Signed in by the link that the server printed."""

    def __init__(self, server: Serving) -> None:
        self._caller = Caller(server.url)
        self._headers = {"Host": urlsplit(server.told["pages"]).netloc}
        link = server.told["login"].removeprefix(server.told["pages"])
        self._headers["Cookie"] = self._get(link).headers["Set-Cookie"].partition(";")[0]

    def status(self, path: str) -> int:
        return self._get(path).status

    def _get(self, path: str) -> Answer:
        return self._caller("GET", path, headers=self._headers)


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    name = f"{postgres_server.prefix}serve_{os.urandom(6).hex()}"
    postgres_server.create_database(name)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def children(pid: int) -> set[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return set(map(int, file.read().split()))


def test_a_worker_that_dies_is_replaced_and_all_stop_together(tmp_path: Path, database: str) -> None:
    if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):
        pytest.skip("this kernel does not list the children of a process")
    make(database)
    with Serving(tmp_path, "--workers", "2", "--quiet", store=database) as server:
        assert server.told["key_file"].startswith(str(tmp_path / ".local" / "state"))
        caller = server.admin()
        caller.ok("POST", "/v1/items", {"title": "t", "id": "x"})
        browser = Browser(server)
        # Each request is a new connection, which either of them may take.
        assert {browser.status("/v1/me") for _ in range(10)} == {200}
        first = children(server.process.pid)
        assert len(first) == 2
        os.kill(min(first), signal.SIGKILL)
        caller.ok("POST", "/v1/sessions", {"agent": "coder", "id": "s"})
        with connect(database) as board:
            watch = board.watch()
            # The other one serves on, and the dead one's place is taken.
            while len(children(server.process.pid)) < 2 or min(first) in children(server.process.pid):
                watch.wait(0.1)
            watch.close()
        assert caller.ok("POST", "/v1/items/x/claim", {"session": "s"})["claim"]["token"] == 1
        workers = children(server.process.pid)
        assert server.stop() == 0
        assert not [pid for pid in workers if os.path.exists(f"/proc/{pid}")]
        (line,) = server.log().splitlines()
        assert f"worker {min(first)} exited with -9; restarting in 0.5s" in line
        assert "password" not in line


def test_workers_end_with_their_parent(tmp_path: Path, database: str) -> None:
    make(database)
    with Serving(tmp_path, "--workers", "2", "--quiet", store=database) as server:
        server.admin().ok("GET", "/v1/who")
        workers = {pid: os.pidfd_open(pid) for pid in children(server.process.pid)}
        server.process.kill()
        server.process.wait()
        import select

        for pid, fd in workers.items():
            assert select.select([fd], [], [], 20)[0], f"worker {pid} goes on without its parent"
            os.close(fd)
