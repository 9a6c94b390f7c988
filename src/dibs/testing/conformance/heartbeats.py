"""Heartbeats of a session: all of its live claims go on at once, what has expired is never revived, what was lost is
answered one by one, and what the session no longer lists is let go.
"""

from __future__ import annotations

import pytest

from dibs.errors import ClaimExpired, Invalid
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, latest, refused, session
from dibs.testing.harness import Harness

#: Who ask at once, each in a process of its own.
CALLERS = 6


class TestHeartbeats:
    def test_a_heartbeat_renews_every_live_claim_of_its_session_only(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", "y", "z")
        me, other = session(board), session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        board.claim("y", session=me, ttl_seconds=1200)
        theirs = board.claim("z", session=other, ttl_seconds=TTL_SECONDS).claim
        harness.clock.advance(300)
        beat = board.heartbeat(session=me)
        now = harness.clock.now()
        assert {one.item: one.expires_at for one in beat.renewed} == {"x": now + 600_000, "y": now + 1_200_000}
        assert (beat.lost, beat.forgotten, beat.session) == ((), (), me)
        assert board.get("z").claim == theirs

    def test_a_heartbeat_never_revives_what_has_expired(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS)
        board.claim("y", session=me, ttl_seconds=TTL_SECONDS * 3)
        expire(harness)
        beat = board.heartbeat(session=me)
        assert [one.item for one in beat.renewed] == ["y"]
        assert [(one.item, one.token, one.code, one.holder) for one in beat.lost] == [("x", 1, "CLAIM_EXPIRED", None)]
        assert board.get("x").claim is None
        assert board.claim("x", session=session(board)).claim.token == 2

    def test_a_heartbeat_with_holding_says_how_each_was_lost(self, harness: Harness) -> None:
        board = harness.board()
        me, bob = session(board, "ann"), session(board, "bob")
        added(board, "kept", "taken", "expired", "finished", "never")
        for id in ("kept", "finished"):
            board.claim(id, session=me, ttl_seconds=7200)
        for id in ("taken", "expired"):
            board.claim(id, session=me, ttl_seconds=TTL_SECONDS)
        board.done("finished", session=me)
        expire(harness)
        board.claim("taken", session=bob)
        beat = board.heartbeat(session=me, holding={"kept": 1, "taken": 1, "expired": 1, "finished": 1, "never": None})
        assert [one.item for one in beat.renewed] == ["kept"]
        lost = {one.item: (one.code, one.how) for one in beat.lost}
        assert lost == {
            "taken": ("CLAIM_EXPIRED", "expired"),
            "expired": ("CLAIM_EXPIRED", "expired"),
            "finished": ("TASK_NOT_CLAIMED", "done"),
            "never": ("TASK_NOT_CLAIMED", "never_claimed"),
        }
        holder = next(one.holder for one in beat.lost if one.item == "taken")
        assert holder == {"session": bob, "agent": "bob", "token": 2}

    def test_what_a_session_does_not_list_is_released_as_forgotten(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        me = session(board, "ann")
        board.claim("x", session=me)
        board.claim("y", session=me)
        beat = board.heartbeat(session=me, holding={"x": None})
        assert [one.item for one in beat.renewed] == ["x"]
        assert beat.forgotten == ("y",)
        item = board.get("y").item
        assert (item.status, item.strikes) == ("ready", 0)
        assert board.get("y").runs[0].outcome == "forgotten"
        assert latest(board, "y").agent == "ann"

    def test_a_late_heartbeat_forgets_nothing_that_was_given_since(self, harness: Harness) -> None:
        """It was sent before the session was given something through another connection, and arrives after that."""
        board, other = harness.board(), harness.board()
        added(board, "known", "dropped", "since", "again")
        me = session(board)
        for id in ("known", "dropped", "again"):
            board.claim(id, session=me)
        known = board.heartbeat(session=me).event
        other.claim("since", session=me)
        other.release("again", session=me)
        other.claim("again", session=me)
        late = board.heartbeat(session=me, holding={"known": 1}, known_event=known)
        assert late.forgotten == ("dropped",)
        assert [(one.item, one.token) for one in late.renewed] == [("again", 2), ("known", 1), ("since", 1)]
        assert {id: board.get(id).item.status for id in ("since", "dropped")} == {
            "since": "in_progress",
            "dropped": "ready",
        }
        # What it does not list the next time either is forgotten then.
        beat = board.heartbeat(session=me, holding={"known": 1}, known_event=late.event)
        assert beat.forgotten == ("again", "since")

    def test_what_is_known_is_said_with_what_is_held_and_is_an_event(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        for wrong in ({"known_event": 1}, {"holding": {}, "known_event": -1}, {"holding": {}, "known_event": "1"}):
            with pytest.raises(Invalid) as refused:
                board.heartbeat(session=me, **wrong)
            assert refused.value.facts["field"] == "known_event"
        assert board.get("x").claim is not None

    def test_an_unknown_item_in_holding_is_lost_and_harms_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        beat = board.heartbeat(session=me, holding={"x": 1, "no-such-item": 1})
        assert [one.item for one in beat.renewed] == ["x"]
        assert [(one.item, one.code) for one in beat.lost] == [("no-such-item", "TASK_NOT_FOUND")]

    def test_a_spent_token_in_holding_is_lost_and_the_live_claim_goes_on(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        board.release("x", session=me)
        board.claim("x", session=me)
        beat = board.heartbeat(session=me, holding={"x": 1})
        assert [(one.item, one.token, one.code) for one in beat.lost] == [("x", 1, "NOT_CLAIM_OWNER")]
        assert [(one.item, one.token) for one in beat.renewed] == [("x", 2)]
        assert beat.forgotten == ()

    def test_what_was_renewed_less_than_the_interval_ago_is_left_as_it_is(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        added(board, "x", "y", "soft")
        me = session(board)
        given = board.claim("x", session=me, ttl_seconds=TTL_SECONDS).claim
        soft = board.soft_claim("soft", session=me, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(30)
        board.claim("y", session=me, ttl_seconds=TTL_SECONDS)
        harness.clock.advance(29.999)
        left = board.heartbeat(session=me, at_most_every_seconds=60)
        assert [(one.item, one.renewed, one.heartbeat_count) for one in left.renewed] == [
            ("x", False, 0),
            ("y", False, 0),
        ]
        assert (left.renewed[0].expires_at, left.renewed[0].remaining_seconds) == (given.expires_at, 540.001)
        assert board.get("x").claim == given
        assert board.who()[-1].soft == soft
        assert not board.renew("x", session=me, at_most_every_seconds=60).renewed
        harness.clock.advance(0.001)
        beat = board.heartbeat(session=me, at_most_every_seconds=60)
        assert [(one.item, one.renewed, one.heartbeat_count) for one in beat.renewed] == [
            ("x", True, 1),
            ("y", False, 0),
        ]
        assert beat.renewed[0].expires_at == harness.clock.now() + 600_000
        renewed = board.who()[-1].soft
        assert renewed is not None
        assert renewed.expires_at == harness.clock.now() + 600_000
        # Another TTL is something to write down, and so is every heartbeat that names no interval.
        assert board.renew("x", session=me, ttl_seconds=1200, at_most_every_seconds=60).renewed
        assert all(one.renewed for one in board.heartbeat(session=me).renewed)

    def test_an_interval_lets_no_claim_lapse_and_hides_no_loss(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "lost", "dropped")
        me = session(board)
        board.claim("lost", session=me, ttl_seconds=TTL_SECONDS)
        board.claim("x", session=me, ttl_seconds=TTL_SECONDS * 3)
        board.claim("dropped", session=me, ttl_seconds=TTL_SECONDS * 3)
        expire(harness)
        # Three times in a TTL it is renewed whatever the interval is.
        beat = board.heartbeat(session=me, holding={"x": 1, "lost": 1}, at_most_every_seconds=86_400)
        assert [(one.item, one.renewed) for one in beat.renewed] == [("x", True)]
        assert [(one.item, one.code) for one in beat.lost] == [("lost", "CLAIM_EXPIRED")]
        assert beat.forgotten == ("dropped",)
        refused(ClaimExpired, board.renew, "lost", session=me, at_most_every_seconds=60)
        for wrong in (0, -1, "60s"):
            assert refused(Invalid, board.heartbeat, session=me, at_most_every_seconds=wrong).facts["field"] == (
                "at_most_every_seconds"
            )

    def test_who_beats_is_not_shown_as_stale_whatever_the_interval_is(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me, ttl_seconds=7200)
        gap_seconds = board.settings.stale_seconds / 2
        renewals = 0
        for _ in range(5):
            harness.clock.advance(gap_seconds)
            assert board.who()[0].health == "healthy"
            renewals += board.heartbeat(session=me, at_most_every_seconds=7200).renewed[0].renewed
        assert renewals == 5
        harness.clock.advance(gap_seconds / 2)
        assert not board.renew("x", session=me, at_most_every_seconds=7200).renewed
        harness.clock.advance(gap_seconds / 2)
        assert board.renew("x", session=me, at_most_every_seconds=7200).renewed

    def test_of_many_callers_at_once_one_renews(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        harness.clock.advance(61)
        actors, gate = harness.actors(CALLERS), harness.gate()
        for actor in actors:
            actor.send("heartbeat", session=me, at_most_every_seconds=60, at=gate)
        gate.open()
        renewals = [actor.answer().reply["renewed"][0] for actor in actors]
        assert sorted(one["renewed"] for one in renewals) == [False] * (CALLERS - 1) + [True]
        assert len({one["expires_at"] for one in renewals}) == 1
        claim = board.get("x").claim
        assert claim is not None
        assert claim.heartbeat_count == 1
