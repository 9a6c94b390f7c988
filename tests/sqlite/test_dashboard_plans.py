"""What a dashboard reads does not grow with the items that have ended, and a full view says what it leaves off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from dibs.board import Board, connect
from dibs.config import DEFAULTS
from dibs.store.sql import overview, paging, stats
from dibs.store.sqlite.store import SqliteStore
from dibs.store.sqlite.transaction import STATEMENTS

#: Of these, a statement may read only what an index gives it.
LARGE = {"items", "events", "runs", "sessions", "needed", "before", "i", "e", "r", "o"}
#: The feed is read from its end, up to a bound.
FROM_THE_END = {"SCAN events": {"briefs_ended", "page", "page_items", "page_texts"}}
READ = (
    *(
        "unended_by_status",
        "ready_depth",
        "figures",
        "figures_of_items",
        "upto",
        "ended_changes",
        "runs_since",
        "first_claims_since",
    ),
    *("briefs_of_status", "briefs_in_dead_ends", "briefs_ended", "briefs_by_id", "page", "page_texts", "end_reasons"),
    *("holdings", "live_queues", "seats", "seen_sessions", "new_seats", "claims_of_sessions", "runs_of_sessions"),
    *(
        "beats",
        "items_with_holders",
        "unended_but_ready",
        "items_by_id",
        "claims_of_items",
        "runs_in_window",
        "live_runs_before",
    ),
    *("event_range", "event_from", "run_range", "run_from", "events_in_series", "changes_in_series"),
    *("waits_in_series", "durations_in_series", "costs_in_series", "latest_event", "live_counts", "figures_of_items"),
    *("next_events", "last_run_of_events", "first_claims_between", "begin_runs", "ended_runs_between"),
    *("take_ended_runs", "counted_items", "counted_runs", "counted_first_claims"),
)
STATISTICS = """
    INSERT INTO sqlite_stat1 VALUES ('items', 'items_status', '1000000 200000 100000 1');
    INSERT INTO sqlite_stat1 VALUES ('events', 'sqlite_autoindex_events_1', '4000000 4 1');
    INSERT INTO sqlite_stat1 VALUES ('runs', 'sqlite_autoindex_runs_1', '1000000 1 1');
    INSERT INTO sqlite_stat1 VALUES ('runs', 'runs_agent', '1000000 100000');
"""


@pytest.fixture(params=["never analysed", "a million ended"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> apsw.Connection:
    path = str(tmp_path / "board.db")
    SqliteStore(path, DEFAULTS, create=True).close()
    found = apsw.Connection(path)
    if request.param != "never analysed":
        found.execute("ANALYZE").fetchall()
        found.execute(STATISTICS)
        found.close()
        found = apsw.Connection(path)
    found.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return found


@pytest.mark.parametrize("name", READ)
def test_no_read_of_a_dashboard_scans_what_has_ended(connection: apsw.Connection, name: str) -> None:
    plan = [str(row[-1]) for row in connection.execute("EXPLAIN QUERY PLAN " + STATEMENTS[name], _Anything())]
    scans = [line for line in plan if line.startswith("SCAN ") and line.split()[1] in LARGE]
    scans = [line for line in scans if "sessions_live" not in line and name not in FROM_THE_END.get(line, ())]
    assert not scans, plan


class _Anything(dict[str, object]):
    """A value for every parameter: plans do not depend on values."""

    def __missing__(self, name: str) -> object:
        return "[]" if name in ("items", "sessions", "projects", "labels") else 1


def test_what_needs_somebody_is_in_a_view_of_any_board(tmp_path: Path) -> None:
    with Board(SqliteStore(str(tmp_path / "board.db"), DEFAULTS, create=True), actor="tester") as board:
        many = overview.ITEMS_MAX + 100  # three batches
        for start in range(0, many, 700):
            board.add_many([{"title": "x", "id": f"i{n}", "priority": 9} for n in range(start, start + 700)])
        me = board.start_session("coder").id
        for id in ("failed", "gone", "held", "over"):
            board.add("last", id=id, priority=1)
        board.add("last", id="asked", priority=1, needs_approval=True)
        board.add("last", id="stuck", priority=1, depends_on=["gone"])
        board.cancel("gone")
        for id in ("failed", "held", "over"):
            board.claim(id, session=me)
        board.fail("failed", session=me)
        board.done("over", session=me)
        view = board.view()
        assert len(view.items) == overview.ITEMS_MAX
        assert {"failed", "held", "asked", "stuck", "over", "gone"} <= {item.id for item in view.items}
        ready = sum(item.status == "ready" for item in view.items)
        assert view.left_off == many - ready == view.counts["ready"] - ready


def test_a_view_says_what_it_leaves_off_of_every_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in {"SEATS_MAX": 3, "HOLDINGS_MAX": 2, "ITEMS_MAX": 8, "APPROVALS_MAX": 2}.items():
        monkeypatch.setattr(overview, name, most)
    with Board(SqliteStore(str(tmp_path / "board.db"), DEFAULTS, create=True), actor="tester") as board:
        sessions = [board.start_session("coder").id for _ in range(5)]
        held = [f"held-{number}" for number in range(4)]
        for id in held:
            board.add("x", id=id)
            board.claim(id, session=sessions[0])
        for number in range(20):
            board.add("x", id=f"asked-{number}", needs_approval=True)
        view = board.view()
    assert (len(view.sessions), view.sessions_left_off) == (3, 2)
    assert (len(view.holdings), view.holdings_left_off) == (2, 2)
    shown = [item.id for item in view.items]
    assert shown == ["asked-0", "asked-1", *held, "asked-2", "asked-3"], "approvals leave room for what is in flight"
    assert view.left_off == 16


def test_a_filter_is_read_before_the_board_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, matching = str(tmp_path / "board.db"), paging.matching
    settings = DEFAULTS.replace(lock_wait_seconds=0.1)
    with Board(SqliteStore(path, settings, create=True), actor="tester") as board:
        other = Board(SqliteStore(path, settings), actor="another")
        for id in ("a", "b"):
            board.add("x", id=id)

        def matching_beside_a_writer(*given: Any, **asked: Any) -> Any:
            found = matching(*given, **asked)
            other.edit("b", title="changed")
            return found

        monkeypatch.setattr(paging, "matching", matching_beside_a_writer)
        answer = board.bulk("park", filter={"q": "x"}, expect=2)
        other.close()
    assert answer.done == ("a",)
    assert [(one.item, one.code) for one in answer.refused] == [("b", "TASK_CHANGED")]


def test_the_costs_of_an_agent_are_looked_for_among_a_bounded_number_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent with few runs, or with none, would make `stats` read all runs of the board."""
    monkeypatch.setattr(stats, "COSTS_MAX", 2)
    with connect(str(tmp_path / "board.db"), create=True) as board:
        for number, agent in enumerate(("ann", "bob", "ann", "bob")):
            board.add("t", id=f"t{number}")
            me = board.start_session(agent).id
            board.claim(f"t{number}", session=me)
            board.done(f"t{number}", session=me, cost={"usd": 10**number})
        assert board.stats().cost == {"usd": 1100}
        assert board.stats(agent="ann").cost == {"usd": 100}
