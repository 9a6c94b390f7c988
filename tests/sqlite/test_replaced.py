"""A process that has a board open does not go on with a file that was removed or replaced, which nobody else sees."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import Board, connect
from dibs.errors import DibsError, ItemAlreadyClaimed, StoreUnusable
from dibs.store.sqlite.bell import BellWatch
from tests.mcp.client import McpClient

#: Claims x for the session in its first argument, whenever a line arrives, and says how that went.
WORKER = """
import sys
from dibs.board import connect
from dibs.errors import DibsError
board = connect(sys.argv[2])
board.list()
print("open", flush=True)
for line in sys.stdin:
    try:
        board.start_session("coder", id=sys.argv[1])
        print(board.claim("x", session=sys.argv[1]).claim.token, flush=True)
    except DibsError as error:
        print(error.code, flush=True)
"""


class Worker:
    def __init__(self, session: str, path: Path) -> None:
        command = [sys.executable, "-c", WORKER, session, str(path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._read() == "open"

    def claim(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._read()

    def end(self) -> None:
        self.process.communicate()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def make(path: Path, *items: str) -> Board:
    board = connect(str(path), create=True)
    for item in items:
        board.add(item, id=item)
    return board


def remove(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def test_two_processes_do_not_hold_one_item_on_a_board_that_was_made_again(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    make(path, "x").close()
    workers = [Worker("s1", path)]
    try:
        remove(path)
        assert workers[0].claim() == "STORE_UNAVAILABLE"
        make(path, "x").close()
        workers.append(Worker("s2", path))
        assert [worker.claim() for worker in workers] == ["1", "TASK_ALREADY_CLAIMED"]
    finally:
        for worker in workers:
            worker.end()


def test_a_removed_board_is_missing_and_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "there" / "board.db"
    board = make(path, "x")
    path.parent.rename(tmp_path / "away")
    uses: list[Callable[[], object]] = [board.list, lambda: board.add("y"), board.store.watch]
    for use in uses:
        with pytest.raises(StoreUnusable, match="there is no board at"):
            use()
    assert os.listdir(tmp_path) == ["away"]
    (tmp_path / "away").rename(path.parent)
    assert [item.id for item in board.list()] == ["x"]
    board.add("y", id="y")
    board.close()
    with connect(str(path)) as again:
        assert {item.id for item in again.list()} == {"x", "y"}


def test_what_is_no_board_in_its_place_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    board = make(path, "x")
    remove(path)
    path.write_bytes(b"notes of a person\n" * 300)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match="damaged or not a board"):
            board.add("y")
    assert path.read_bytes() == b"notes of a person\n" * 300


def test_reads_of_a_server_and_waits_follow_a_board_that_was_made_again(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    board = make(path, "x")
    board.store.separate_readers()
    assert [item.id for item in board.list()] == ["x"]
    watch = board.store.watch()
    assert isinstance(watch, BellWatch)
    remove(path)
    other = make(path, "y")
    assert [item.id for item in board.list()] == ["y"]
    assert watch.wait(0), "it wakes, because the board is another"
    assert not watch.wait(0)
    other.add("z", id="z")
    assert watch.wait(30)
    watch.close()


def test_a_write_that_waited_for_the_lock_goes_to_the_board_that_is_there_then(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    board = make(path, "x")
    holder = connect(str(path))
    lock = holder.store.engine.lock  # type: ignore[attr-defined]
    lock.acquire()
    added: list[object] = []

    def add() -> None:
        try:
            added.append(board.add("y", id="y").id)
        except DibsError as error:
            added.append(error)

    thread = threading.Thread(target=add)
    waits = board.store.engine.lock  # type: ignore[attr-defined]
    thread.start()
    while waits._queued is None:
        pass
    remove(path)
    other = make(path)
    lock.release()
    thread.join()
    assert added == ["y"]
    assert [item.id for item in other.list()] == ["y"]


def test_the_lock_of_a_former_board_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    board = make(path, "x")
    lock = connect(str(path)).store.engine.lock  # type: ignore[attr-defined]
    lock.acquire()
    remove(path)
    other = make(path)
    began = time.monotonic()
    board.add("y", id="y")
    assert time.monotonic() - began < lock.wait_seconds
    assert [item.id for item in other.list()] == ["y"]
    lock.release()


def test_mcp_follows_a_board_that_was_made_again(tmp_path: Path) -> None:
    path = tmp_path / ".dibs" / "board.db"
    make(path, "x")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DIBS")}
    mcp = McpClient(tmp_path, environment | {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder"})
    try:
        assert mcp.call("claim", item="x")["token"] == 1
        remove(path)
        assert mcp.call("claim", item="x")["error"] == "STORE_UNAVAILABLE"
        other = make(path, "x")
        other.start_session("other", id="s0")
        other.claim("x", session="s0")
        assert mcp.call("claim", item="x")["error"] == "TASK_ALREADY_CLAIMED"
    finally:
        mcp.kill()
    with pytest.raises(ItemAlreadyClaimed):
        other.claim("x", session=other.start_session("third").id)
