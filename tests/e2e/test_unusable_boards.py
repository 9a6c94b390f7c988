"""A board that waiting does not help: whoever works on it stops with one line, also behind a server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from dibs.board import connect
from dibs.errors import StoreUnavailable, StoreUnusable
from tests.e2e.conftest import Dibs
from tests.kit.waiting import PATIENCE_SECONDS, until
from tests.server.process import Serving

Keep = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
NEWER = 9999
BOARD = Path(".dibs", "board.db")


def replaced(board: Path, change: Callable[[Path], None]) -> None:
    """Put another file in the place of the board, as a restore or an upgrade by copying does."""
    copy = board.with_name("copy.db")
    connection = apsw.Connection(str(board))
    connection.execute("VACUUM INTO ?", (str(copy),))
    connection.close()
    change(copy)
    for suffix in ("-wal", "-shm"):
        Path(f"{board}{suffix}").unlink(missing_ok=True)
    os.replace(copy, board)


def raise_version(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA user_version = {NEWER}")
    connection.close()


def damage(path: Path) -> None:
    path.write_bytes(b"this is no database, and was never one " * 1000)


BAD = {
    "newer": (raise_version, "was written by a newer dibs (schema 9999; "),
    "damaged": (damage, "is damaged or not a"),
}


@pytest.fixture
def server(dibs: Dibs) -> Iterator[Serving]:
    dibs.ok("add", "a", "--id", "a")
    with Serving(dibs.folder, "--quiet") as serving:
        yield serving


@pytest.fixture
def remote(dibs: Dibs, server: Serving) -> Dibs:
    """The same commands by way of the server, by the user who started it and has its key."""
    return Dibs(dibs.folder, dibs.environment | {"DIBS_STORE": server.url, "HOME": str(dibs.folder)})


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("where", ["file", "server"])
def test_a_worker_stops_with_one_line(dibs: Dibs, remote: Dibs, ended: Keep, where: str, bad: str) -> None:
    worker = ended((remote if where == "server" else dibs).start("work", "--agent", "coder", "--", "true"))
    until(lambda: dibs.json("show", "a")["item"]["status"] == "done")
    change, says = BAD[bad]
    replaced(dibs.folder / BOARD, change)
    _, told = worker.communicate(timeout=PATIENCE_SECONDS)
    assert worker.returncode == 1, told
    (line,) = [line for line in told.splitlines() if line.startswith("dibs: ")]
    assert says in line


@pytest.mark.parametrize("bad", BAD)
def test_a_client_is_told_that_waiting_does_not_help(
    server: Serving, remote: Dibs, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, says = BAD[bad]
    monkeypatch.setenv("HOME", str(remote.folder))
    with connect(server.url) as board:
        assert board.list()
        replaced(remote.folder / BOARD, change)
        for ask in (board.list, lambda: board.add("b"), lambda: list(board.export()), lambda: board.sweep()):
            with pytest.raises(StoreUnusable, match=says.partition("(")[0]) as caught:
                ask()
            assert caught.value.facts["permanent"] is True
    code, refusal = remote.refused("list")
    assert (code, refusal["code"], refusal["permanent"]) == (1, StoreUnavailable.code, True)
