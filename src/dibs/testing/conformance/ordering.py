"""Ordering: `next` gives the best first: higher priority, then older; what comes back keeps its place."""

from __future__ import annotations

from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, session
from dibs.testing.harness import Harness


class TestOrdering:
    def test_higher_priority_comes_first_then_the_older(self, harness: Harness) -> None:
        board = harness.board()
        for id, priority in (("low", 1), ("mid-1", 5), ("high", 8), ("mid-2", 5), ("negative", -3), ("top", 10**6)):
            board.add(id, id=id, priority=priority)
        wanted = ["top", "high", "mid-1", "mid-2", "low", "negative"]
        assert ids(board.list()) == wanted
        me = session(board)
        assert [ids(board.next(session=me))[0] for _ in wanted] == wanted
        assert board.next(session=me) == ()

    def test_items_of_one_call_and_one_instant_keep_their_order(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        wanted = ["z", "m", "a", "q"]
        added(board, *wanted)
        added(board, "b")
        assert ids(board.next(session=session(board), n=5)) == [*wanted, "b"]

    def test_age_is_the_order_of_adding_whatever_the_clock_did(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "first")
        harness.clock.advance(-3600)
        added(board, "second")
        assert ids(board.next(session=session(board), n=2)) == ["first", "second"]

    def test_a_released_item_keeps_its_place(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b", "c")
        me = session(board)
        assert ids(board.next(session=me)) == ["a"]
        board.release("a", session=me)
        assert ids(board.next(session=me, n=3)) == ["a", "b", "c"]

    def test_an_expired_item_keeps_its_place_swept_or_not(self, harness: Harness) -> None:
        for swept in (False, True):
            board = harness.board()
            names = [f"{letter}-{swept}" for letter in "abc"]
            added(board, *names, project=f"p-{swept}")
            board.next(session=session(board), projects=[f"p-{swept}"], ttl_seconds=TTL_SECONDS)
            expire(harness)
            if swept:
                board.sweep()
            assert ids(board.next(session=session(board), projects=[f"p-{swept}"], n=3)) == names

    def test_the_best_of_more_expired_items_than_one_sweep_takes_comes_first(self, harness: Harness) -> None:
        board = harness.board()
        count = board.settings.sweep_batch + 1
        board.add_many({"id": f"worse-{number}", "title": "worse"} for number in range(count))
        me = session(board)
        board.next(session=me, n=count, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(1)
        board.add("best", id="best", priority=9)
        board.claim("best", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        assert ids(board.next(session=session(board))) == ["best"]

    def test_a_retried_item_keeps_its_place(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        me = session(board)
        board.next(session=me)
        board.fail("a", session=me)
        board.retry("a")
        assert ids(board.next(session=me, n=2)) == ["a", "b"]

    def test_an_edited_priority_counts_at_once(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b", "c")
        board.edit("c", priority=9)
        assert ids(board.list()) == ["c", "a", "b"]
        assert ids(board.next(session=session(board))) == ["c"]

    def test_n_are_given_in_order_and_in_one_step(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcde")
        grants = board.next(session=session(board), n=3)
        assert ids(grants) == ["a", "b", "c"]
        assert len({grant.claim.claimed_at for grant in grants}) == 1
        assert ids(board.next(session=session(board), n=10)) == ["d", "e"]

    def test_without_n_one_is_given(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        assert ids(board.next(session=session(board))) == ["a"]
        assert board.get("b").item.status == "ready"

    def test_only_the_types_asked_for_are_given(self, harness: Harness) -> None:
        board = harness.board()
        for type in ("bug", "docs", "feature", "bug"):
            board.add(type, type=type)
        me = session(board)
        assert [grant.item.type for grant in board.next(session=me, types=["docs", "bug"], n=10)] == [
            "bug",
            "docs",
            "bug",
        ]
        assert board.next(session=me, types=["docs"]) == ()

    def test_only_types_that_the_agent_takes_are_given(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("writer", types=["docs", "blog"])
        board.add("b", id="b", type="bug", priority=9)
        board.add("d", id="d", type="docs")
        board.add("e", id="e", type="blog")
        me = session(board, "writer")
        assert board.next(session=me, types=["bug"]) == ()
        assert ids(board.next(session=me, types=["blog", "bug"])) == ["e"]
        assert ids(board.next(session=me, n=5)) == ["d"]

    def test_only_projects_asked_for_are_given(self, harness: Harness) -> None:
        board = harness.board()
        for id, project in (("a", "web"), ("b", "api"), ("c", "ops")):
            board.add(id, id=id, project=project)
        me = session(board)
        assert ids(board.next(session=me, projects=["ops", "api"], n=5)) == ["b", "c"]
        assert board.next(session=me, projects=["api"]) == ()
        assert ids(board.next(session=me, n=5)) == ["a"]

    def test_types_and_projects_are_both_meant(self, harness: Harness) -> None:
        board = harness.board()
        for id, project, type in (("a", "web", "bug"), ("b", "web", "docs"), ("c", "api", "docs")):
            board.add(id, id=id, project=project, type=type)
        assert ids(board.next(session=session(board), projects=["web"], types=["docs"], n=5)) == ["b"]

    def test_what_is_held_or_ended_is_passed_over(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcde")
        other = session(board)
        board.claim("a", session=other)
        board.claim("b", session=other)
        board.done("b", session=other)
        board.cancel("c")
        assert ids(board.next(session=session(board), n=5)) == ["d", "e"]

    def test_its_own_claims_are_not_given_again(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        me = session(board)
        assert ids(board.next(session=me)) == ["a"]
        assert ids(board.next(session=me)) == ["b"]
        assert board.next(session=me) == ()
        assert board.get("a").item.token == 1

    def test_a_change_of_type_moves_the_item_among_what_is_asked_for(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", type="bug")
        board.edit("a", type="docs", project="web")
        assert board.next(session=session(board), types=["bug"]) == ()
        assert ids(board.next(session=session(board), types=["docs"], projects=["web"])) == ["a"]
