"""A board that goes away: the screen says since when, changes nothing, and goes on by itself."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from tests.kit.http import Host, open_board
from tests.kit.sqlite import SqliteHarness
from tests.top.driving import Terminal, drive


def test_a_server_that_was_killed_and_is_back(board: Board, harness: SqliteHarness) -> None:
    host = Host()
    url, key = host.serve(harness.recipe(), sweeps=True)
    port = int(url.rpartition(":")[2])
    hosts = [host]

    async def person(shown: Terminal) -> None:
        board.add("Over the wire", id="news", priority=10)
        await shown.shows("news", "added")
        # One that hangs closes no connection: only its silence tells.
        hosts[0].stop_process()
        await shown.shows("✕ away since", "▒▒▒▒")
        hosts[0].continue_process()
        await shown.shows("● live", "████")
        hosts.pop().close()
        await shown.shows("✕ away since", "▒▒▒▒")
        left = next(line for line in shown.lines if "▒▒▒▒" in line)
        await shown.press("a")
        await shown.shows("the board is away; nothing was changed")
        board.add("Meanwhile", id="meanwhile", priority=10)
        board.end_session("s-3")
        assert left in shown.lines, "the clocks stand"
        hosts.append(Host())
        hosts[0].serve(harness.recipe(), port=port, sweeps=True)
        await shown.shows("● live", "████")
        assert "meanwhile" in shown.app.state.items
        assert "s-3" not in shown.app.state.seats
        board.add("Afterwards", id="afterwards", priority=10)
        await shown.shows("afterwards")

    try:
        with closing(open_board(servers=[(url, key)])) as mine:
            drive(mine, person)
    finally:
        for one in hosts:
            one.close()


@pytest.mark.parametrize("way", ["restored", "restored behind a server", "another file"])
def test_a_board_that_was_replaced_is_shown_as_it_is(
    way: str, board: Board, harness: SqliteHarness, http_host: Host
) -> None:
    folder = Path(harness.folder)
    copy = str(folder / "kept.db")
    board.backup(copy)
    for number in range(3):
        board.add("Lost work", id=f"lost-{number}", priority=10)

    async def person(shown: Terminal) -> None:
        await shown.shows("lost-2", "added")
        if way == "another file":
            # With as many events as the screen has seen, so that their numbers tell nothing.
            for name in ("board.db", "board.db-wal", "board.db-shm"):
                (folder / name).rename(folder / f"old-{name}")
            os.replace(copy, folder / "board.db")
            for number in range(3):
                harness.board().add("Found work", id=f"found-{number}")
        else:
            board.restore(copy)
        await shown.hides("lost-")
        assert not any(item.startswith("lost-") for item in shown.app.state.items)
        harness.board().add("Afterwards", id="afterwards", priority=10)
        await shown.shows("● live", "afterwards")
        assert shown.app.state.counts == harness.board().view().counts

    if way != "restored behind a server":
        return drive(board, person)
    url, key = http_host.serve(harness.recipe())
    try:
        with closing(open_board(servers=[(url, key)])) as mine:
            drive(mine, person)
    finally:
        http_host.stop(url)


def test_the_outcome_of_a_slow_action_is_told_whatever_is_pressed_meanwhile(
    board: Board, harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, bulk = threading.Event(), board.bulk

    def slow(*args: Any, **asked: Any) -> Any:
        assert answers.wait(30)
        return bulk(*args, **asked)

    monkeypatch.setattr(board, "bulk", slow)

    async def person(shown: Terminal) -> None:
        await shown.press("g", "q", "/")
        await shown.type("docs-42")
        await shown.press("enter", "c")
        await shown.asks("cancel docs-42?")
        await shown.press("y")
        await shown.shows("cancel docs-42 ...")
        await shown.press("n")
        await shown.shows("the board has not answered yet: cancel docs-42")
        await shown.press("c", "g", "n")
        assert not shown.question
        answers.set()
        await shown.shows("docs-42: cancel")
        await shown.press("n")
        await shown.asks("A new item")

    drive(board, person)
    assert harness.board().get("docs-42").item.status == "cancelled"


def test_a_revoked_key_is_told_in_a_line(board: Board, harness: SqliteHarness, http_host: Host) -> None:
    url, _ = http_host.serve(harness.recipe())
    known, secret = board.create_key("admin")

    async def person(shown: Terminal) -> None:
        board.revoke_key(known.id)
        await shown.shows("✕ away since")

    try:
        with closing(open_board(servers=[(url, secret)])) as mine:
            drive(mine, person, (130, 24))
    finally:
        http_host.stop(url)
