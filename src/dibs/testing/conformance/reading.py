"""Reading: lists, who is on what, figures, refused claims, runs and sessions, as people and dashboards see them."""

from __future__ import annotations

from dibs.errors import ItemAlreadyClaimed
from dibs.model import STATUSES
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, refused, session
from dibs.testing.harness import Harness


class TestLists:
    def test_each_filter_narrows_the_list(self, harness: Harness) -> None:
        board = harness.board()
        for id, project, type, labels in (
            ("a", "web", "bug", ["ui", "p1"]),
            ("b", "web", "docs", ["ui"]),
            ("c", "api", "bug", []),
            ("d", "api", "bug", ["p1", "ui", "x"]),
        ):
            board.add(id, id=id, project=project, type=type, labels=labels)
        me = session(board)
        board.claim("d", session=me)
        board.cancel("c")
        assert ids(board.list()) == ["a", "b", "c", "d"]
        assert ids(board.list(statuses=["ready"])) == ["a", "b"]
        assert ids(board.list(statuses=["in_progress", "cancelled"])) == ["c", "d"]
        assert ids(board.list(projects=["web"])) == ["a", "b"]
        assert ids(board.list(types=["bug"])) == ["a", "c", "d"]
        assert ids(board.list(labels=["ui"])) == ["a", "b", "d"]
        assert ids(board.list(labels=["ui", "p1"])) == ["a", "d"]
        assert ids(board.list(projects=["web"], types=["bug"], labels=["ui"], statuses=["ready"])) == ["a"]
        assert board.list(projects=["nowhere"]) == ()

    def test_the_list_is_in_the_order_of_next_and_bounded(self, harness: Harness) -> None:
        board = harness.board()
        for id, priority in (("a", 1), ("b", 9), ("c", 5), ("d", 9)):
            board.add(id, id=id, priority=priority)
        assert ids(board.list()) == ["b", "d", "c", "a"]
        assert ids(board.list(limit=2)) == ["b", "d"]

    def test_an_item_is_shown_with_its_runs_newest_first(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        for agent in ("ann", "bob", "cyd"):
            me = session(board, agent)
            board.claim("x", session=me)
            if agent != "cyd":
                board.release("x", session=me)
        detail = board.get("x")
        assert [(run.agent, run.token, run.outcome) for run in detail.runs] == [
            ("cyd", 3, None),
            ("bob", 2, "released"),
            ("ann", 1, "released"),
        ]
        assert detail.claim is not None
        assert detail.claim.agent == "cyd"

    def test_an_expired_claim_is_not_shown_as_a_claim(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
        expire(harness)
        assert board.get("x").claim is None


class TestWho:
    def test_who_groups_live_claims_by_agent_oldest_first(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcd")
        bob, ann = session(board, "bob", kind="autonomous"), session(board, "ann")
        for id, me in (("a", bob), ("b", ann), ("c", bob), ("d", ann)):
            board.claim(id, session=me)
            harness.clock.advance(1)
        lines = board.who()
        assert [(line.claim.agent, line.item.id) for line in lines if line.claim] == [
            ("ann", "b"),
            ("ann", "d"),
            ("bob", "a"),
            ("bob", "c"),
        ]
        assert lines[2].kind == "autonomous"

    def test_an_expired_claim_is_nobodys_in_who(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        board.claim("a", session=session(board, "ann"), ttl_seconds=TTL_SECONDS)
        board.claim("b", session=session(board, "bob"), ttl_seconds=TTL_SECONDS * 3)
        expire(harness)
        assert [line.item.id for line in board.who()] == ["b"]

    def test_health_goes_from_healthy_to_expiring(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        settings = board.settings
        added(board, "x")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=7200)

        def health() -> str:
            (line,) = board.who()
            assert line.age_seconds == passed
            assert line.remaining_seconds == 7200 - passed
            return line.health

        seen = []
        passed = 0.0
        for until in (
            settings.stale_seconds,
            settings.stale_seconds + 1,
            settings.orphan_seconds + 1,
            7200 - settings.warning_seconds,
            7200 - settings.expiring_seconds,
        ):
            harness.clock.advance(until - passed)
            passed = until
            seen.append(health())
        assert seen == ["healthy", "stale", "orphaned", "warning", "expiring"]
        board.renew("x", session=me)
        assert board.who()[0].health == "healthy"


class TestFigures:
    def test_the_figures_of_a_busy_board(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "a", "b", "c", type="bug", priority=8)
        added(board, "d", "e")
        ann, bob = session(board, "ann"), session(board, "bob")
        harness.clock.advance(10)
        for id in ("a", "b", "d"):
            board.claim(id, session=ann)
        harness.clock.advance(20)
        board.done("a", session=ann)
        board.fail("b", session=ann)
        refused(ItemAlreadyClaimed, board.claim, "d", session=bob)
        stats = board.stats()
        some = {"ready": 2, "in_progress": 1, "done": 1, "failed": 1}
        assert stats.items == dict.fromkeys(STATUSES, 0) | some
        assert (stats.active_claims, stats.live_sessions, stats.total_claims) == (1, 2, 3)
        assert (stats.outcomes.get("done"), stats.outcomes.get("failed")) == (1, 1)
        assert (stats.conflicts_avoided, stats.claim_success_rate, stats.failure_rate) == (1, 0.75, 0.5)
        assert (stats.time_to_claim_seconds, stats.claim_duration_seconds) == (10, 20)
        depth = {(line["type"], line["priority"]): line["count"] for line in stats.ready}
        assert depth == {("bug", 8): 1, ("task", 5): 1}

    def test_an_agent_has_figures_of_its_own(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "a", "b", "c")
        ann, bob = session(board, "ann"), session(board, "bob")
        harness.clock.advance(10)
        board.claim("a", session=ann)
        board.claim("b", session=ann)
        board.claim("c", session=bob)
        board.wait("a", session=bob)
        harness.clock.advance(20)
        board.done("b", session=ann)
        refused(ItemAlreadyClaimed, board.claim, "a", session=bob)
        refused(ItemAlreadyClaimed, board.claim, "c", session=ann)
        refused(ItemAlreadyClaimed, board.claim, "c", session=ann)
        hers, his, board_wide = board.stats(agent="ann"), board.stats(agent="bob"), board.stats()
        assert (hers.active_claims, hers.total_claims, hers.outcomes) == (1, 2, {"done": 1, "running": 1})
        assert (hers.conflicts_avoided, hers.claim_success_rate, hers.failure_rate) == (2, 0.5, 0)
        assert (hers.live_sessions, hers.waiters, hers.claim_duration_seconds) == (1, 0, 20)
        assert (his.active_claims, his.total_claims, his.outcomes) == (1, 1, {"running": 1})
        assert (his.conflicts_avoided, his.claim_success_rate, his.failure_rate) == (1, 0.5, None)
        assert (his.live_sessions, his.waiters, his.claim_duration_seconds) == (1, 1, None)
        assert (hers.items, hers.ready) == (board_wide.items, board_wide.ready)
        assert board_wide.conflicts_avoided == 3

    def test_an_agent_that_never_came_has_figures_of_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.claim("x", session=session(board, "ann"))
        stats = board.stats(agent="nobody")
        assert (stats.active_claims, stats.total_claims, stats.conflicts_avoided, stats.outcomes) == (0, 0, 0, {})
        assert (stats.claim_success_rate, stats.time_to_claim_seconds, stats.claim_duration_seconds) == (
            None,
            None,
            None,
        )

    def test_an_empty_board_has_figures_without_rates(self, harness: Harness) -> None:
        stats = harness.board().stats()
        assert (sum(stats.items.values()), stats.total_claims, stats.ready) == (0, 0, [])
        assert (stats.claim_success_rate, stats.failure_rate, stats.time_to_claim_seconds) == (None, None, None)


class TestRecords:
    def test_refused_claims_are_listed_newest_first(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        ann = session(board, "ann")
        board.claim("x", session=ann)
        board.claim("y", session=ann)
        for agent, id in (("bob", "x"), ("cyd", "y"), ("bob", "y")):
            refused(ItemAlreadyClaimed, board.claim, id, session=session(board, agent))
        assert [(line.agent, line.item) for line in board.activity()] == [("bob", "y"), ("cyd", "y"), ("bob", "x")]
        assert [line.item for line in board.activity(agent="bob")] == ["y", "x"]
        assert [line.agent for line in board.activity(item="y", limit=1)] == ["bob"]
        assert board.activity(item="y")[0].details["holder"]["agent"] == "ann"

    def test_runs_are_listed_newest_first_by_item_session_and_agent(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        ann, bob = session(board, "ann"), session(board, "bob")
        for id, me in (("x", ann), ("y", ann), ("x", bob)):
            board.claim(id, session=me)
            board.release(id, session=me, reason=f"from {me}")
        assert [(run.item, run.token) for run in board.runs()] == [("x", 2), ("y", 1), ("x", 1)]
        assert [run.token for run in board.runs(item="x")] == [2, 1]
        assert [run.item for run in board.runs(session=ann)] == ["y", "x"]
        assert [run.item for run in board.runs(agent="bob")] == ["x"]
        assert [run.item for run in board.runs(limit=1)] == ["x"]
        assert board.runs(agent="bob")[0].reason == f"from {bob}"

    def test_a_session_shows_its_claims_and_its_last_ten_runs(self, harness: Harness) -> None:
        board = harness.board()
        names = [f"item-{number:02}" for number in range(13)]
        added(board, *names)
        me = session(board)
        for id in names[:12]:
            board.claim(id, session=me)
            board.done(id, session=me)
        board.claim(names[12], session=me)
        (view,) = board.sessions()
        assert view.claims == 1
        assert [run.item for run in view.recent] == names[:2:-1]

    def test_sessions_are_listed_most_recently_seen_first(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        first = session(board)
        harness.clock.advance(1)
        second = session(board)
        harness.clock.advance(1)
        third = session(board)
        harness.clock.advance(5)
        board.heartbeat(session=first)
        board.end_session(second)
        assert [view.session.id for view in board.sessions()] == [first, third]
        assert {view.session.id for view in board.sessions(ended=True)} == {first, second, third}
        assert len(board.sessions(limit=1)) == 1

    def test_a_session_is_seen_when_it_acts(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        for act in (
            lambda: board.claim("x", session=me),
            lambda: board.renew("x", session=me),
            lambda: board.heartbeat(session=me),
            lambda: board.progress("x", "n", session=me),
            lambda: board.done("x", session=me),
            lambda: board.next(session=me),
        ):
            harness.clock.advance(5)
            act()
            assert board.sessions()[0].session.seen_at == harness.clock.now()
