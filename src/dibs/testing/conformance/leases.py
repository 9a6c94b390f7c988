"""Leases: a claim lasts its TTL by the store's clock and goes on by renewal, never past its deadline.

Expiry is a strike, and the last strike fails the item.
"""

from __future__ import annotations

from dibs.errors import ClaimExpired, Invalid, ItemNotClaimable
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, kinds, latest, refused, session
from dibs.testing.harness import Harness

MILLISECOND = 0.001


class TestLeases:
    def test_a_claim_is_live_to_its_last_millisecond_and_not_longer(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        me = session(board)
        claim = board.claim("x", session=me, ttl_seconds=TTL_SECONDS).claim
        harness.clock.advance(TTL_SECONDS - MILLISECOND)
        assert board.sweep().expired == ()
        assert board.get("x").claim == claim
        harness.clock.advance(MILLISECOND)
        assert board.get("x").claim is None
        refused(ClaimExpired, board.renew, "x", session=me, token=1)
        assert board.sweep().expired == ("x",)

    def test_a_sweep_gives_back_what_expired_and_counts_a_strike(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y", "z")
        me = session(board, "ann")
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        board.claim("y", session=me, ttl_seconds=TTL_SECONDS * 3)
        expire(harness)
        swept = board.sweep()
        assert (swept.expired, swept.failed, swept.owner_died, swept.more) == (("x",), (), (), False)
        item = board.get("x").item
        assert (item.status, item.strikes, item.token) == ("ready", 1, 1)
        assert board.get("y").item.status == "in_progress"
        event = latest(board, "x")
        assert (event.kind, event.session, event.agent) == ("expired", me, "ann")
        assert event.actor not in ("", "ann"), "time took it back, not its holder"
        assert board.get("x").runs[0].outcome == "expired"
        assert board.sweep().expired == ()

    def test_a_sweep_is_bounded_and_says_that_there_is_more(self, harness: Harness) -> None:
        board = harness.board()
        added(board, *"abcde")
        me = session(board)
        for id in "abcde":
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS)
        expire(harness)
        first, second = board.sweep(limit=3), board.sweep(limit=3)
        assert (len(first.expired), first.more) == (3, True)
        assert (len(second.expired), second.more) == (2, False)
        assert sorted(first.expired + second.expired) == list("abcde")

    def test_the_last_strike_fails_the_item_with_that_reason(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        strikes = board.settings.max_strikes
        for _ in range(strikes):
            board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
            expire(harness)
            swept = board.sweep()
        assert (swept.expired, swept.failed) == (("x",), ("x",))
        assert (board.get("x").item.status, board.get("x").item.strikes) == ("failed", strikes)
        assert "strike" in (board.get("x").runs[0].reason or "")

    def test_a_claim_that_meets_the_last_strike_is_refused_and_the_item_failed(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        for _ in range(board.settings.max_strikes):
            board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
            expire(harness)
        assert refused(ItemNotClaimable, board.claim, "x", session=session(board)).facts["status"] == "failed"
        assert board.get("x").item.status == "failed"
        assert board.next(session=session(board)) == ()

    def test_release_forced_release_and_clean_ends_are_no_strikes(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        board.release("x", session=me)
        board.claim("x", session=me)
        board.force_release("x", reason="needed")
        board.claim("x", session=me)
        board.heartbeat(session=me, holding={})
        board.claim("x", session=me)
        board.end_session(me)
        assert (board.get("x").item.status, board.get("x").item.strikes, board.get("x").item.attempts) == (
            "ready",
            0,
            4,
        )

    def test_a_renewal_keeps_the_claim_for_another_ttl(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", timeout_seconds=100_000)
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        for count in (1, 2, 3):
            harness.clock.advance(TTL_SECONDS - 1)
            renewal = board.renew("x", session=me, token=1)
            assert renewal.expires_at == harness.clock.now() + TTL_SECONDS * 1000
            assert (renewal.heartbeat_count, renewal.remaining_seconds) == (count, TTL_SECONDS)
        claim = board.get("x").claim
        assert claim is not None
        assert (claim.expires_at, claim.heartbeat_count) == (renewal.expires_at, 3)
        assert kinds(board, "x") == ["added", "claimable", "claimed"], "a heartbeat is no event"

    def test_a_renewal_may_change_the_ttl_within_its_bounds(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        assert board.renew("x", session=me, ttl_seconds=1200).remaining_seconds == 1200
        harness.clock.advance(10)
        assert board.renew("x", session=me).remaining_seconds == 1200
        refused(Invalid, board.renew, "x", session=me, ttl_seconds=board.settings.ttl_seconds_max + 1)

    def test_no_renewal_goes_past_the_deadline(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", timeout_seconds=1000)
        me = session(board)
        claim = board.claim("x", session=me, ttl_seconds=TTL_SECONDS).claim
        assert claim.deadline_at == claim.claimed_at + 1_000_000
        harness.clock.advance(TTL_SECONDS - 1)
        assert board.renew("x", session=me).expires_at == claim.deadline_at
        assert board.heartbeat(session=me).renewed[0].expires_at == claim.deadline_at
        assert board.progress("x", "nearly", session=me).expires_at == claim.deadline_at
        assert board.claim("x", session=me, ttl_seconds=TTL_SECONDS).claim.expires_at == claim.deadline_at
        harness.clock.advance(401)
        refused(ClaimExpired, board.renew, "x", session=me)

    def test_a_deadline_shorter_than_the_ttl_bounds_the_claim(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", timeout_seconds=60)
        claim = board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS).claim
        assert claim.expires_at == claim.deadline_at == harness.clock.now() + 60_000

    def test_warnings_come_before_the_end(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        settings = board.settings
        added(board, "x", timeout_seconds=1000)
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        assert board.renew("x", session=me).warning is None
        harness.clock.advance(500)
        assert board.renew("x", session=me).warning is None
        harness.clock.advance(500 - settings.warning_seconds)
        assert board.renew("x", session=me).warning == "warning"
        harness.clock.advance(settings.warning_seconds - settings.expiring_seconds)
        assert board.renew("x", session=me).warning == "expiring"

    def test_the_suggested_interval_fits_the_ttl(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=60)
        board.claim("y", session=me, ttl_seconds=7200)
        assert board.renew("x", session=me).heartbeat_seconds <= 60 / 3
        assert board.renew("y", session=me).heartbeat_seconds <= board.settings.heartbeat_seconds

    def test_progress_renews_and_leaves_a_note(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        me = session(board, "ann")
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(100)
        renewal = board.progress("x", "half way", session=me, token=1, meta={"percent": 50})
        assert renewal.expires_at == harness.clock.now() + TTL_SECONDS * 1000
        event = latest(board, "x")
        assert (event.kind, event.status, event.actor) == ("progress", "in_progress", "ann")
        assert (event.data["note"], event.data["meta"]) == ("half way", {"percent": 50})

    def test_a_new_claim_inherits_nothing_of_the_old_one(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x")
        ann = session(board, "ann")
        board.claim("x", session=ann, ttl_seconds=7200)
        board.renew("x", session=ann)
        board.heartbeat(session=ann)
        board.release("x", session=ann)
        harness.clock.advance(5)
        claim = board.claim("x", session=session(board, "bob"), ttl_seconds=TTL_SECONDS).claim
        now = harness.clock.now()
        assert (claim.heartbeat_count, claim.ttl_seconds) == (0, TTL_SECONDS)
        assert (claim.claimed_at, claim.renewed_at, claim.expires_at) == (now, now, now + 600_000)
        assert board.get("x").claim == claim
