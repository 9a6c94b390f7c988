"""Soft claims: word of who is on what, for callers with a lock of their own: shown, expiring, in nobody's way."""

from __future__ import annotations

from dibs.errors import Invalid, ItemNotClaimed, ItemNotFound, SessionNotFound
from dibs.testing.conformance.asking import TTL_SECONDS, added, ids, refused, session, whole
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board


def softly(board: Board) -> list[tuple[str, str]]:
    """Who is softly on what, as `who` shows it."""
    return [(line.soft.item, line.soft.session) for line in board.who() if line.soft is not None]


class TestSoftClaims:
    def test_a_soft_claim_is_shown_and_marked(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", "hard")
        me = session(board, "editor", kind="person")
        board.claim("hard", session=me)
        soft = board.soft_claim("x", session=me, ttl_seconds=TTL_SECONDS)
        now = harness.clock.now()
        assert (soft.item, soft.session, soft.agent) == ("x", me, "editor")
        assert (soft.claimed_at, soft.expires_at) == (now, now + 600_000)
        harness.clock.advance(100)
        hard, line = board.who()
        assert (hard.item.id, hard.soft) == ("hard", None)
        assert (line.item.id, line.claim, line.soft, line.health) == ("x", None, soft, "soft")
        assert (line.kind, line.age_seconds, line.remaining_seconds) == ("person", 100, TTL_SECONDS - 100)

    def test_a_soft_claim_is_in_nobodys_way(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", resources=["src"])
        ann, bob = session(board, "ann"), session(board, "bob")
        board.soft_claim("x", session=ann)
        board.soft_claim("x", session=bob)
        assert softly(board) == [("x", ann), ("x", bob)]
        assert ids(board.next(session=session(board, "coder"), n=2)) == ["x", "y"]
        assert softly(board) == [("x", ann), ("x", bob)]
        board.soft_claim("y", session=ann)

    def test_a_soft_claim_has_no_token_and_no_history(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        before = whole(board, "x")
        board.soft_claim("x", session=me)
        assert whole(board, "x") == before
        refused(ItemNotClaimed, board.done, "x", session=me)
        refused(ItemNotClaimed, board.renew, "x", session=me)
        board.soft_release("x", session=me)
        assert whole(board, "x") == before
        stats = board.stats()
        assert (stats.active_claims, stats.total_claims) == (0, 0)
        assert_sound(board)

    def test_a_soft_claim_is_within_every_limit(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        board.set_agent("coder", max_claims=1, max_claims_total=1, claims_per_minute=1)
        me = session(board, "coder")
        board.soft_claim("x", session=me)
        assert board.claim("y", session=me)

    def test_a_soft_claim_expires(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.soft_claim("x", session=me, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(TTL_SECONDS - 0.001)
        assert softly(board) == [("x", me)]
        harness.clock.advance(0.001)
        assert softly(board) == []
        board.sweep()
        refused(ItemNotClaimed, board.soft_release, "x", session=me)

    def test_a_heartbeat_renews_a_soft_claim_and_never_a_lapsed_one(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.soft_claim("x", session=me, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(TTL_SECONDS - 1)
        beat = board.heartbeat(session=me)
        assert (beat.renewed, beat.lost) == ((), ())
        harness.clock.advance(TTL_SECONDS - 1)
        assert softly(board) == [("x", me)]
        board.heartbeat(session=session(board))
        harness.clock.advance(1)
        board.heartbeat(session=me)
        assert softly(board) == []

    def test_a_soft_claim_is_given_up_by_who_has_it(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.soft_claim("x", session=ann)
        refused(ItemNotClaimed, board.soft_release, "x", session=bob)
        assert board.soft_release("x", session=ann).session == ann
        assert softly(board) == []
        refused(ItemNotClaimed, board.soft_release, "x", session=ann)

    def test_a_soft_claim_is_gone_with_its_session(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.soft_claim("x", session=me)
        board.end_session(me)
        assert softly(board) == []

    def test_a_soft_claim_made_again_is_one_renewed(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.soft_claim("x", session=me, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(100)
        again = board.soft_claim("x", session=me, ttl_seconds=TTL_SECONDS)
        assert again.expires_at == harness.clock.now() + 600_000
        assert softly(board) == [("x", me)]

    def test_only_who_is_known_makes_one_of_what_is_known(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        refused(ItemNotFound, board.soft_claim, "nothing", session=me)
        refused(SessionNotFound, board.soft_claim, "x", session="nobody")
        refused(Invalid, board.soft_claim, "x", session=me, ttl_seconds=board.settings.ttl_seconds_max + 1)
        board.end_session(me)
        refused(SessionNotFound, board.soft_claim, "x", session=me)
        assert softly(board) == []
