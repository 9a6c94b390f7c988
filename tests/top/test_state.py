"""What the screen knows after events and vitals is what the board says; time, filters and needs follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.cli.render import CODES
from dibs.cli.top import actions, attention, lines, views
from dibs.cli.top.panes import clock_left, lease_of
from dibs.cli.top.rows import bar, style_of
from dibs.cli.top.state import BoardState
from dibs.model import ROLES, STATUSES
from dibs.model.dashboard import Vitals
from dibs.sdk import live
from dibs.testing import sizes
from dibs.text import times
from tests.conformance.conftest import folder  # noqa: F401
from tests.dashboard.fleet import Fleet
from tests.kit import sqlite
from tests.kit.sqlite import SqliteHarness


@pytest.fixture
def harness(folder: Path) -> Iterator[SqliteHarness]:  # noqa: F811
    with sqlite.harness(folder) as made:
        made.clock.freeze()
        yield made


class Looking:
    """A state that is only told news, from a view on."""

    def __init__(self, board: Board) -> None:
        self.board, view = board, board.view()
        self.state = BoardState(view)
        self._after, self._known = view.event, board.store.vitals()

    def hear(self) -> None:
        while events := self.board.events(after=self._after, limit=500):
            for event in events:
                assert self.state.apply(event), event
            self._after = events[-1].id
        found: Vitals = self.board.store.vitals()
        self.state.apply(live.difference(self._known, found))
        self._known = found

    def assert_knows_the_board(self) -> None:
        # Who follows a board records what time has changed.
        self.board.sweep()
        self.hear()
        told, read = self.state, BoardState(self.board.view())
        assert told.items.keys() == read.items.keys()
        for id, item in told.items.items():
            assert brief(item) == brief(read.items[id])
        assert {status: told.counts.get(status, 0) for status in STATUSES} == read.counts
        assert held_by(told) == held_by(read)
        assert seats_of(told) == seats_of(read)
        assert abs(told.now - read.now) < 1000


def brief(item: Any) -> dict[str, Any]:
    return {
        **item.as_dict(),
        "depends_on": sorted(item.depends_on),
        "open_blockers": sorted(map(str, item.open_blockers)),
    }


def held_by(state: BoardState) -> dict[str, Any]:
    """Of a claim that ends at its deadline, vitals do not tell when it was renewed."""
    names = ("token", "session", "agent", "kind", "claimed_at", "expires_at", "deadline_at", "note")
    return {
        id: (
            [getattr(held, name) for name in names],
            [one.session for one in held.waiters],
            held.renewed_at if held.expires_at < held.deadline_at else None,
        )
        for id, held in state.holdings.items()
    }


def seats_of(state: BoardState) -> dict[str, Any]:
    return {
        id: (seat.agent, seat.kind, sorted(seat.holding), [(run.item, run.outcome) for run in seat.recent])
        for id, seat in state.seats.items()
    }


def test_news_lead_to_what_the_board_says(harness: SqliteHarness) -> None:
    board, seed = harness.board(), sizes.seed()
    print(f"DIBS_SEED={seed}")
    fleet = Fleet(board, harness.clock, seed=seed)
    fleet.add(30)
    fleet.start(6)
    looking = Looking(board)
    for round in range(3 * sizes.FACTOR):
        fleet.play(2, seconds=100)
        looking.assert_knows_the_board()
        if round == 0:
            fleet.settle()
            looking.assert_knows_the_board()
    board.park("prices") if board.get("prices").item.status == "ready" else board.approve("prices")
    board.edit("release-2", title="Release 3", labels=["web"], priority=1)
    board.retry("plan-release")
    board.cancel("plan-release")
    board.end_session(fleet.sessions[-1])
    board.start_session("late", id="late-1")
    looking.assert_knows_the_board()


def test_time_stands_while_the_board_is_away(harness: SqliteHarness) -> None:
    state = BoardState(harness.board().view())
    state.stand()
    assert state.is_away
    assert state.now == state.now
    before = state.now
    state.replace(harness.board().view())
    assert not state.is_away
    assert state.now >= before


def test_what_needs_a_person_comes_in_order_and_says_why(harness: SqliteHarness) -> None:
    board = harness.board()
    given: dict[str, dict[str, Any]] = {
        **{"fine": {}, "silent": {}, "failing": {}, "draft": {}, "plan": {"needs_approval": True}},
        **{"dead-end": {"depends_on": ["failing"]}},
    }
    for id, more in given.items():
        board.add(f"Do {id}", id=id, **more)
    board.start_session("coder", id="s-1")
    board.start_session("fixer", id="s-2")
    board.claim("silent", session="s-1", ttl_seconds=7200)
    board.claim("failing", session="s-2")
    board.fail("failing", session="s-2", reason="tests red")
    board.claim("draft", session="s-2")
    board.submit("draft", session="s-2", draft="Dear customer")
    harness.clock.advance(board.settings.stale_seconds + 1)
    board.claim("fine", session="s-2")
    state = BoardState(board.view())
    state.remember(board.events(limit=100))
    found = {need.item: need.why for need in attention.needs(state)}
    minutes = times.span(board.settings.stale_seconds + 1)
    assert set(list(found)[:2]) == {"draft", "plan"}
    assert list(found)[2:] == ["silent", "dead-end", "failing"]
    assert found["draft"] == f"draft waits {minutes}"
    assert found["plan"] == f"plan waits {minutes}"
    assert found["silent"] == f"s-1 silent {minutes}"
    assert found["failing"] == "failed: tests red"
    assert found["dead-end"] == "needs failing, which is failed"


def test_a_bar_is_true_to_the_second(harness: SqliteHarness) -> None:
    board = harness.board()
    board.add("x", id="x")
    board.start_session("coder", id="s-1")
    board.claim("x", session="s-1", ttl_seconds=100)
    harness.clock.advance(50)
    state = BoardState(board.view())
    state.stand()
    lease, left, mark = lease_of(state, state.holdings["x"])
    assert (lease, left) == ("▒" * 5 + " " * 5, "0:50")
    assert mark == "expiring"
    assert [clock_left(seconds) for seconds in (0, 59.9, 61, 3725, 36_300)] == [
        "0:00",
        "0:59",
        "1:01",
        "1:02:05",
        "10h 05",
    ]
    assert (bar(1, 4), bar(0.5, 4), bar(0.53, 4), bar(0, 4), bar(-3, 4)) == ("████", "██  ", "██▏ ", "    ", "    ")


def test_a_filter_has_fields_and_words(harness: SqliteHarness) -> None:
    board = harness.board()
    board.add("Login fails", id="fix-login", labels=["web"], type="bug", project="shop")
    board.add("Docs", id="docs", project="site")
    board.add("Old", id="old")
    board.cancel("old")
    state = BoardState(board.view())

    def found(text: str) -> list[str]:
        return sorted(id for id, item in state.items.items() if attention.matcher(state, text)(item))

    assert found("") == ["docs", "fix-login"]
    assert found("LOGIN web") == ["fix-login"]
    assert found("status:ready project:site,shop") == ["docs", "fix-login"]
    assert found("label:web type:bug fails") == ["fix-login"]
    assert found("status:cancelled") == ["old"]
    assert found("agent:coder") == []
    assert found("nothing:here") == []


def test_a_role_has_the_actions_that_the_board_grants_it(harness: SqliteHarness) -> None:
    board = harness.board()
    board.add("x", id="x", needs_approval=True)
    (item,) = board.view().items
    keys = {role: [one.key for one in actions.fitting(item, role)] for role in ROLES}
    assert keys == {"viewer": [], "agent": [], "person": [], "admin": ["a", "b", "R", "c"]}
    assert [role for role in ROLES if actions.may("add", role)] == ["agent", "person", "admin"]


def test_every_colour_of_the_other_commands_is_a_style() -> None:
    for name in CODES:
        style = style_of(name)
        assert style.render("x") == f"\x1b[{CODES[name]}mx\x1b[0m"


def test_a_view_has_what_fits_its_width() -> None:
    assert views.arrangement("now", 80) == {"needs", "flight", "events"}
    assert views.arrangement("now", 120) == {"needs", "flight", "events", "queue"}
    assert views.arrangement("now", 160) == {"needs", "flight", "events", "queue", "detail"}
    assert views.arrangement("sessions", 119) == {"sessions"}
    assert views.arrangement("item", 200) == {"detail"}


def test_the_lamp_is_whole_however_narrow_the_screen_is(harness: SqliteHarness) -> None:
    state = BoardState(harness.board().view())
    for columns in (40, 80, 200):
        lamp = lines.lamp(away_since=0, why="x" * 300, paused=False, columns=columns)
        head = lines.head(state, "a-board-with-a-very-long-name", 5, lamp, columns)
        assert head.cell_len <= columns
        assert "✕ away since" in head.plain
