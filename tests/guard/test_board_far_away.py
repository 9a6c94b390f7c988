"""Pushes of many claims to a board that is slow to answer, or stops answering in the middle."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.guard import git, verify
from tests.guard.conftest import ANN, Repository, import_commits, lose
from tests.kit.chaos import ChaosProxy
from tests.server.process import serving

COMMITS = 300


class Counted:
    """A store that counts the requests of the guard."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.runs_read, self.items_read = inner, 0, 0

    def runs(self, **given: Any) -> Any:
        self.runs_read += 1
        return self.inner.runs(**given)

    def get(self, item: str) -> Any:
        self.items_read += 1
        return self.inner.get(item)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize(("page", "runs_read", "items_read"), [(1000, 1, 0), (2, 7, COMMITS + 1)])
def test_items_that_the_board_does_not_know_are_not_asked_for_one_by_one(
    repository: Repository,
    board: Board,
    monkeypatch: pytest.MonkeyPatch,
    page: int,
    runs_read: int,
    items_read: int,
) -> None:
    """If the board has more runs than can be read in the time that the items would take, each item is asked for."""
    old, _ = lose(board)
    board.add("t", id="later")
    for _ in range(20):
        board.claim("later", session=ANN)
        board.release("later", session=ANN)
    import_commits(repository, [f"x/{old}", *(f"unknown-{number}/1" for number in range(COMMITS))])
    monkeypatch.chdir(repository.folder)
    monkeypatch.setattr(verify, "LATEST_RUNS", page)
    counted = Counted(board.store)
    board.store = counted  # type: ignore[assignment]
    verdict = verify.verify(lambda: nullcontext(board), [git.resolve("main..many")])
    board.store = counted.inner
    assert [one.item for one in verdict.refused] == ["x"]
    assert (len(verdict.unknown), verdict.problem) == (COMMITS, None)
    assert (counted.runs_read, counted.items_read) == (runs_read, items_read)


class Gateway(ChaosProxy):
    """Answers that the server is not available where a request names the item `mute`."""

    def _fate(self) -> str:
        return "examined"

    def _meets(self, fate: str, data: bytes, client: socket.socket, server: socket.socket) -> bool:
        is_mute = b"/v1/items/mute" in data
        if is_mute:
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        else:
            server.sendall(data)
        return is_mute


@pytest.fixture
def gateway(repository: Repository, board: Board, tmp_path: Path) -> Iterator[None]:
    folder = tmp_path / "server"
    folder.mkdir()
    store = str(repository.folder / ".git" / "dibs" / "board.db")
    with Gateway(0) as proxy, serving(folder, "--quiet", "--name", f"http://{proxy.host}", store=store) as server:
        proxy.target = int(server.url.rpartition(":")[2])
        key = json.loads(Path(server.told["key_file"]).read_text())["key"]
        repository.environment |= {"DIBS_STORE": f"http://{proxy.host}", "DIBS_KEY": key}
        yield


def test_what_was_read_before_the_board_stopped_answering_is_judged(
    repository: Repository, board: Board, gateway: None
) -> None:
    repository.dibs("guard", "install")
    old, new = lose(board)
    verified = ("dibs", "guard", "verify", "--range", "origin/main..HEAD")
    unread = "1 of 2 claims were not read: the server answers 502"
    # Git lists the newest commit first, and the few items are asked for in this order.
    repository.commit("without an answer", "mute/1")
    repository.git("branch", "beside")
    repository.commit("zombie", f"x/{old}")
    code, output = repository.run("git", "push", "--quiet", "origin", "main", DIBS_GUARD_PASS="good work")
    assert (code, f"not everything was checked ({unread})" in output) == (1, True), output
    assert "which bob (session bob-1) took over" in output
    assert repository.run(*verified)[0] == 4
    repository.git("switch", "--quiet", "beside")
    repository.commit("holder's", f"x/{new}")
    code, output = repository.run(*verified)
    assert (code, unread in output) == (75, True), output
    code, output = repository.run("git", "push", "--quiet", "origin", "beside")
    assert (code, f"not everything was checked: {unread}" in output) == (0, True), output
