"""Heartbeats of a session: all of its live claims go on at once, what has expired is never revived, what was lost is
answered one by one, and what the session no longer lists is let go.
"""

from __future__ import annotations

import pytest

from dibs.check import META_BYTES_MAX
from dibs.errors import ClaimExpired, Invalid
from dibs.testing.conformance.asking import TTL_SECONDS, added, expire, latest, refused, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board

#: Who ask at once, each in a process of its own.
CALLERS = 6


def meta_of(board: Board, id: str) -> dict[str, Any]:
    return board.find_session(id).meta


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
        me, idle = session(board), session(board)
        board.claim("x", session=me)
        harness.clock.advance(61)
        actors = harness.actors(CALLERS)
        answers: dict[str, list[Any]] = {}
        for one in (me, idle):
            gate = harness.gate()
            for number, actor in enumerate(actors):
                actor.send("heartbeat", session=one, at_most_every_seconds=60, meta={f"by-{number}": 1}, at=gate)
            gate.open()
            answers[one] = [actor.answer().reply["renewed"] for actor in actors]
            assert len(meta_of(board, one)) == 1, "one of them stores its meta"
        assert answers[idle] == [[]] * CALLERS
        renewals = [renewed[0] for renewed in answers[me]]
        assert sorted(one["renewed"] for one in renewals) == [False] * (CALLERS - 1) + [True]
        assert len({one["expires_at"] for one in renewals}) == 1
        claim = board.get("x").claim
        assert claim is not None
        assert claim.heartbeat_count == 1

    def test_a_heartbeat_merges_meta_into_the_sessions(self, harness: Harness) -> None:
        board = harness.board()
        first = {"model": "small", "cost": {"usd": 0.5}, "none": None}
        me = session(board, meta=first)
        board.heartbeat(session=me, meta={"context_percent": 40, "model": "large"})
        assert meta_of(harness.board(), me) == {**first, "model": "large", "context_percent": 40}
        odd = {"schlüssel\n": ["ü", "\t"]}
        board.heartbeat(session=me, meta={"model": None, "cost": {"usd": 1.0}, "unknown": None, **odd})
        expected = {"cost": {"usd": 1.0}, "none": None, "context_percent": 40, **odd}
        assert list(meta_of(board, me).items()) == list(expected.items())
        board.heartbeat(session=me)
        board.heartbeat(session=me, meta={})
        assert meta_of(board, me) == expected
        assert [view.session.meta for view in board.sessions()] == [expected]
        board.heartbeat(session=me, meta=dict.fromkeys(expected))
        assert meta_of(board, me) == {}

    def test_meta_that_would_be_too_large_is_refused_and_nothing_is_renewed(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x", "y")
        me = session(board, meta={"a": "x" * (META_BYTES_MAX // 2)})
        given = board.claim("x", session=me).claim
        board.claim("y", session=me)
        harness.clock.advance(60)
        # Each entry takes 6 bytes besides its name and the text of its value, and this text two quotes.
        room = META_BYTES_MAX - len('"a": "", ') - META_BYTES_MAX // 2 - len('"ü": "", '.encode())
        for wrong in ({"ü": "x" * (room + 1)}, {"b": "x" * META_BYTES_MAX}, 7, ["a"]):
            error = refused(Invalid, board.heartbeat, session=me, holding={"x": 1}, meta=wrong)
            assert error.facts["field"] == "meta"
            assert wrong == 7 or isinstance(wrong, list) or error.facts["bytes_max"] == META_BYTES_MAX
        assert (board.get("x").claim, board.get("y").item.status) == (given, "in_progress")
        assert [*meta_of(board, me)] == ["a"]
        assert board.heartbeat(session=me, meta={"ü": "x" * room}).renewed[0].renewed
        assert len(meta_of(board, me)["ü"]) == room
        board.heartbeat(session=me, meta={"a": None, "b": "x" * (META_BYTES_MAX // 4)})
        assert [*meta_of(board, me)] == ["ü", "b"]

    def test_meta_is_stored_by_a_heartbeat_that_renews(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        harness.clock.advance(50)
        assert not board.heartbeat(session=me, at_most_every_seconds=60, meta={"at": 50}).renewed[0].renewed
        assert meta_of(board, me) == {}
        board.heartbeat(session=me, meta={"by": "another"})
        assert meta_of(board, me) == {"by": "another"}
        harness.clock.advance(60)
        assert board.heartbeat(session=me, at_most_every_seconds=60, meta={"at": 110}).renewed[0].renewed
        assert not board.heartbeat(session=me, at_most_every_seconds=60, meta={"at": 111}).renewed[0].renewed
        assert meta_of(board, me) == {"by": "another", "at": 110}

    def test_meta_of_a_session_without_claims_is_stored_at_the_same_interval(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        me = session(board)
        stored = []
        for second in range(10, 150, 10):
            harness.clock.advance(10)
            board.heartbeat(session=me, at_most_every_seconds=60, meta={"at": second})
            if meta_of(board, me) == {"at": second}:
                stored.append(second)
        assert stored == [60, 120]
        assert board.find_session(me).seen_at == harness.clock.now() - 20_000
        harness.clock.advance(-3600)
        board.heartbeat(session=me, at_most_every_seconds=60, meta={"at": -1})
        assert meta_of(board, me) == {"at": -1}, "a clock that was set back holds nothing up"
