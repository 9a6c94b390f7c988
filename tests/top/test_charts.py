"""The timeline and the metrics, read off the thread of the screen and not too often; and the display for a wall."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import pytest

from dibs.board import Board
from dibs.cli.top import charts
from tests.kit.sqlite import SqliteHarness
from tests.top.driving import SMALL, WIDE, Terminal, drive


@pytest.mark.parametrize("size", [SMALL, WIDE])
def test_the_timeline_and_the_metrics_are_drawn(board: Board, size: tuple[int, int]) -> None:
    async def person(shown: Terminal) -> None:
        await shown.press("g", "t")
        await shown.shows("Timeline of the last 4 hours", "coder s-1", "fixer s-2", "now", "▶ 1 live", "✕ 1 failed")
        assert "Needs you" not in shown.text
        await shown.press("g", "m")
        await shown.shows("Metrics of the last 4 hours", "items", "in progress", "▁", "in all", ", most ")
        assert "…" not in shown.text, "every bar and every figure has room"
        assert "Timeline" not in shown.text
        # No list is shown, so no key acts on an item.
        await shown.press("c", "x", "F")
        assert shown.app.item is None
        assert not shown.question
        await shown.press("j", "end", "g", "n")
        await shown.shows("Needs you 3")
        assert all(len(line) == size[0] for line in shown.lines)

    drive(board, person, size)


def test_a_screen_that_becomes_narrow_shows_the_latest_figures(board: Board) -> None:
    async def person(shown: Terminal) -> None:
        await shown.press("g", "m")
        await shown.shows("1, most 1", "in all")
        await shown.pilot.resize_terminal(*SMALL)
        await shown.until(lambda: len(shown.lines[0]) == SMALL[0])
        await shown.shows("█  1, most 1", "in all")
        assert "…" not in shown.text

    drive(board, person, WIDE)


def test_a_chart_is_read_in_a_thread_and_at_most_every_ten_seconds(
    board: Board, harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    read = board.window
    now = [1000.0]

    def window(**filters: Any) -> Any:
        threads.append(threading.current_thread())
        return read(**filters)

    monkeypatch.setattr(board, "window", window)
    monkeypatch.setattr(charts, "monotonic", lambda: now[0])

    async def person(shown: Terminal) -> None:
        assert not threads, "nothing is read before the chart is shown"
        await shown.press("g", "t")
        await shown.shows("▶ 1 live")
        harness.board().claim("docs-42", session="s-3")
        await shown.until(lambda: "docs-42" in shown.app.state.holdings)
        await shown.press("g", "n", "g", "t")
        await shown.pilot.resize_terminal(100, 30)
        await shown.until(lambda: len(shown.lines[0]) == 100)
        shown.app._on_second()
        await shown.pilot.pause()
        assert len(threads) == 1
        now[0] += charts.READ_SECONDS
        shown.app._on_second()
        await shown.shows("▶ 2 live")
        assert len(threads) == 2
        await shown.press("g", "n")
        await shown.shows("Needs you")
        now[0] += charts.READ_SECONDS
        shown.app._on_second()
        await shown.pilot.pause()
        assert len(threads) == 2, "a chart that is not shown is not read"

    drive(board, person)
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("size", [SMALL, WIDE])
def test_the_wall_display_has_the_figures_the_needs_and_the_claims(board: Board, size: tuple[int, int]) -> None:
    async def person(shown: Terminal) -> None:
        await shown.press("w")
        await shown.shows("3 need you", "1 in flight", "● live", "Needs you 3", "In flight 1", "tests green,")
        await shown.hides("? keys")
        await shown.until(lambda: "3 need you" in shown.lines[1])
        assert "Queue" not in shown.text
        assert "Events" not in shown.text
        rows = [at for at, line in enumerate(shown.lines) if "waits" in line or "failed: " in line]
        assert [second - first for first, second in pairwise(rows)] == [2, 2]
        await shown.press("c", "j", "x")
        assert not shown.question
        await shown.press("w")
        await shown.shows("Events", "? keys")
        assert shown.app.place == "now"
        await shown.press("g", "q", "w", "escape")
        await shown.shows("Queue 5", "? keys")
        assert "▸" in shown.text

    drive(board, person, size)
