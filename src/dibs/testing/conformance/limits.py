"""Limits: a session holds no more than its agent's `max_claims`, whichever way it asks."""

from __future__ import annotations

from dibs.errors import AgentAtCapacity, ItemAlreadyClaimed
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, ids, refused, session, whole
from dibs.testing.harness import Harness


class TestLimits:
    def test_a_claim_beyond_the_limit_is_refused_with_the_figures(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b", "c")
        board.set_agent("coder", max_claims=2)
        me = session(board, "coder")
        board.claim("a", session=me)
        board.claim("b", session=me)
        before = whole(board, "c")
        facts = refused(AgentAtCapacity, board.claim, "c", session=me).facts
        assert (facts["agent"], facts["held"], facts["max_claims"]) == ("coder", 2, 2)
        assert whole(board, "c") == before

    def test_next_without_room_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        board.set_agent("coder", max_claims=1)
        me = session(board, "coder")
        board.next(session=me)
        refused(AgentAtCapacity, board.next, session=me)
        assert board.get("b").item.status == "ready"

    def test_n_is_cut_to_the_room_there_is(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcdef")
        board.set_agent("coder", max_claims=3)
        me = session(board, "coder")
        assert ids(board.next(session=me, n=2)) == ["a", "b"]
        assert ids(board.next(session=me, n=5)) == ["c"]
        assert board.get("d").item.status == "ready"

    def test_every_way_to_let_go_makes_room(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("coder", max_claims=1)
        me = session(board, "coder")
        for end in ("release", "done", "fail", "force", "cancel", "expire", "forget"):
            added(board, end)
            board.claim(end, session=me, ttl_seconds=TTL_SECONDS)
            if end in ("release", "done", "fail"):
                getattr(board, end)(end, session=me)
            elif end == "force":
                board.force_release(end, reason="r")
            elif end == "cancel":
                board.cancel(end)
            elif end == "expire":
                expire(harness)
            else:
                board.heartbeat(session=me, holding={})
        added(board, "last")
        assert board.claim("last", session=me)

    def test_its_own_claim_again_needs_no_room(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a")
        board.set_agent("coder", max_claims=1)
        me = session(board, "coder")
        board.claim("a", session=me)
        assert board.claim("a", session=me).claim.token == 1

    def test_each_session_of_an_agent_has_the_limit_for_itself(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        board.set_agent("coder", max_claims=1)
        assert board.next(session=session(board, "coder"))
        assert board.next(session=session(board, "coder"))

    def test_a_taken_item_is_told_as_taken_also_to_a_full_session(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        board.set_agent("coder", max_claims=1)
        me, other = session(board, "coder"), session(board, "other")
        board.claim("a", session=me)
        board.claim("b", session=other)
        refused(ItemAlreadyClaimed, board.claim, "b", session=me)

    def test_a_new_limit_counts_at_once_and_takes_nothing_away(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b", "c", "d")
        me = session(board, "coder")
        board.next(session=me, n=3)
        board.set_agent("coder", max_claims=2)
        refused(AgentAtCapacity, board.next, session=me)
        assert len(board.heartbeat(session=me).renewed) == 3
        board.set_agent("coder")
        assert ids(board.next(session=me)) == ["d"]

    def test_recovery_needs_room_like_a_claim(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "a", "b")
        board.set_agent("coder", max_claims=1)
        me = session(board, "coder")
        board.claim("a", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        board.claim("b", session=me)
        refused(AgentAtCapacity, board.recover, "a", session=me, token=1)
