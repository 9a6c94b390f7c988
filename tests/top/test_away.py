"""A board that goes away: the screen says since when, changes nothing, and goes on by itself."""

from __future__ import annotations

from contextlib import closing

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
