"""Recovery: a holder that comes back late may claim again, under a new token, what nobody was given since."""

from __future__ import annotations

from dibs.errors import ClaimExpired, ItemNotClaimed, NotClaimOwner
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, refused, session, whole
from dibs.testing.harness import Harness


class TestRecovery:
    def test_what_nobody_took_is_recovered_under_a_new_token(self, harness: Harness) -> None:
        board = harness.board()
        for id, swept in (("x", False), ("y", True)):
            added(board, id)
            me = session(board, "ann")
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS)
            expire(harness)
            if swept:
                board.sweep()
            grant = board.recover(id, session=me, token=1, ttl_seconds=TTL_SECONDS)
            assert (grant.claim.token, grant.claim.session, grant.item.status) == (2, me, "in_progress")
            assert not grant.renewed
            assert kinds(board, id) == ["added", "claimable", "claimed", "expired", "claimable", "claimed"]
            refused(ClaimExpired, board.done, id, session=me, token=1)
            assert board.done(id, session=me, token=2).item.status == "done"

    def test_a_live_claim_is_renewed_by_recover(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(100)
        grant = board.recover("x", session=me, token=1, ttl_seconds=TTL_SECONDS)
        assert (grant.claim.token, grant.claim.expires_at) == (1, harness.clock.now() + 600_000)
        assert grant.renewed

    def test_what_somebody_took_is_not_recovered_even_after_they_let_go(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann, bob = session(board, "ann"), session(board, "bob")
        board.claim("x", session=ann, ttl_seconds=TTL_SECONDS)
        expire(harness)
        board.claim("x", session=bob)
        for released in (False, True):
            if released:
                board.release("x", session=bob)
            before = whole(board, "x")
            facts = refused(ClaimExpired, board.recover, "x", session=ann, token=1).facts
            assert facts["taken_over_by"] == {"session": bob, "agent": "bob", "token": 2}
            assert whole(board, "x") == before

    def test_only_what_was_lost_by_expiry_is_recovered(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "released", "forced", "done", "never")
        me = session(board)
        for id in ("released", "forced", "done"):
            board.claim(id, session=me)
        board.release("released", session=me)
        board.force_release("forced", reason="stuck")
        board.done("done", session=me)
        for id in ("released", "forced", "done", "never"):
            before = whole(board, id)
            refused(ItemNotClaimed, board.recover, id, session=me)
            assert whole(board, id) == before

    def test_a_stranger_recovers_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.claim("x", session=session(board, "ann"), ttl_seconds=TTL_SECONDS)
        eve = session(board, "eve")
        refused(NotClaimOwner, board.recover, "x", session=eve, token=1)
        expire(harness)
        refused(ItemNotClaimed, board.recover, "x", session=eve, token=1)

    def test_a_late_holder_finishes_through_recover(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        refused(ClaimExpired, board.done, "x", session=me, token=1)
        ended = board.done("x", session=me, token=1, recover=True)
        assert (ended.item.status, ended.run.token) == ("done", 2)
        assert kinds(board, "x") == ["added", "claimable", "claimed", "expired", "claimable", "claimed", "done"]

    def test_a_late_holder_does_not_finish_what_another_took(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        ann = session(board, "ann")
        board.claim("x", session=ann, ttl_seconds=TTL_SECONDS)
        expire(harness)
        board.claim("x", session=session(board, "bob"))
        before = whole(board, "x")
        for verb in (board.done, board.fail):
            refused(ClaimExpired, verb, "x", session=ann, token=1, recover=True)
        assert whole(board, "x") == before
