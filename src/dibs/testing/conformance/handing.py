"""Handing over: a live claim passes to another session in one step, and the old token is worth nothing from then on."""

from __future__ import annotations

from collections import Counter

from dibs.errors import (
    AgentAtCapacity,
    ClaimExpired,
    Forbidden,
    Invalid,
    ItemNotClaimable,
    ItemNotClaimed,
    NotClaimOwner,
    ResourceBusy,
    SessionNotFound,
)
from dibs.testing import recording, sizes
from dibs.testing.conformance.asking import added, expire, kinds, refused, session, whole
from dibs.testing.conformance.racing import assert_explained, cast_of
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board


def held(harness: Harness, **fields: object) -> tuple[Board, str, str]:
    """A board with the item `x`, its holder, and another session."""
    board = harness.board()
    added(board, "x", **fields)
    holder, other = session(board, "coder"), session(board, "reviewer")
    board.claim("x", session=holder, ttl_seconds=600)
    return board, holder, other


class TestHanding:
    def test_the_other_session_holds_it_under_the_next_token(self, harness: Harness) -> None:
        board, holder, other = held(harness)
        board.progress("x", "half of it", session=holder)
        harness.clock.advance(60)
        grant = board.hand("x", to=other, session=holder, token=1, reason="yours", ttl_seconds=900)
        assert (grant.claim.session, grant.claim.agent, grant.claim.token) == (other, "reviewer", 2)
        assert (grant.claim.ttl_seconds, grant.renewed, grant.item.status) == (900, False, "in_progress")
        assert grant.claim.deadline_at - grant.claim.claimed_at == round(grant.item.timeout_seconds * 1000)
        assert grant.previous is not None
        assert (grant.previous.run.session, grant.previous.run.outcome) == (holder, "handed")
        assert [note.note for note in grant.previous.notes] == ["half of it"]
        detail = board.get("x")
        assert detail.claim == grant.claim
        assert [(run.session, run.outcome, run.reason) for run in detail.runs] == [
            (other, None, None),
            (holder, "handed", "yours"),
        ]
        assert (detail.item.attempts, detail.item.strikes) == (2, 0)
        assert kinds(board, "x") == ["added", "claimable", "claimed", "progress", "handed", "claimed"]
        event = board.log("x")[-2]
        assert (event.actor, event.session, event.token) == ("coder", holder, 1)
        assert event.data == {"reason": "yours", "to": other}
        assert_sound(board)

    def test_the_old_token_is_refused_and_told_who_holds_it(self, harness: Harness) -> None:
        board, holder, other = held(harness)
        board.hand("x", to=other, session=holder, token=1)
        before = whole(board, "x")
        for verb, asked in (
            ("renew", {}),
            ("progress", {"note": "late"}),
            ("release", {}),
            ("done", {}),
            ("fail", {}),
            ("submit", {"draft": "late"}),
            ("hand", {"to": other}),
        ):
            for token in (1, None):
                refusal = refused(NotClaimOwner, getattr(board, verb), "x", session=holder, token=token, **asked)
                assert (refusal.facts["how"], refusal.facts["holder"]["session"]) == ("handed", other), verb
        beat = board.heartbeat(session=holder, holding={"x": 1})
        assert [(lost.item, lost.how) for lost in beat.lost] == [("x", "handed")]
        assert whole(board, "x") == before
        assert board.done("x", session=other, token=2).item.status == "done"

    def test_only_the_holder_hands_over_and_only_what_is_live(self, harness: Harness) -> None:
        board, holder, other = held(harness)
        third = session(board, "third")
        before = whole(board, "x")
        refused(NotClaimOwner, board.hand, "x", to=third, session=other)
        refused(Invalid, board.hand, "x", to=other, session=holder, token=7)
        refused(SessionNotFound, board.hand, "x", to=other, session="nobody")
        assert whole(board, "x") == before
        expire(harness)
        refused(ClaimExpired, board.hand, "x", to=other, session=holder, token=1)
        added(board, "free")
        refused(ItemNotClaimed, board.hand, "free", to=other, session=holder)

    def test_it_is_handed_only_to_another_session_that_lives(self, harness: Harness) -> None:
        board, holder, other = held(harness)
        board.end_session(other)
        before = whole(board, "x")
        assert refused(SessionNotFound, board.hand, "x", to=other, session=holder).facts["session"] == other
        assert refused(SessionNotFound, board.hand, "x", to="nobody", session=holder).facts["session"] == "nobody"
        assert refused(Invalid, board.hand, "x", to=holder, session=holder).facts["field"] == "to"
        assert refused(Invalid, board.hand, "x", to="not a name", session=holder).facts["field"] == "to"
        assert whole(board, "x") == before
        assert board.renew("x", session=holder, token=1).token == 1

    def test_what_the_other_could_not_claim_it_is_not_handed(self, harness: Harness) -> None:
        board, holder, _ = held(harness, type="write", resources=["src/a"])
        board.set_agent("full", max_claims=1)
        board.set_agent("reader", allowed_actions=["read"])
        full, reader, busy = session(board, "full"), session(board, "reader"), session(board, "busy")
        added(board, "y", "z")
        added(board, "beside", resources=["src"])
        board.claim("y", session=full)
        board.claim("beside", session=holder)  # its own, until it gives one of them away
        before = whole(board, "x")
        refused(AgentAtCapacity, board.hand, "x", to=full, session=holder, token=1)
        refused(Forbidden, board.hand, "x", to=reader, session=holder, token=1)
        refused(ResourceBusy, board.hand, "x", to=busy, session=holder, token=1)
        refused(Invalid, board.hand, "x", to=busy, session=holder, token=1, ttl_seconds=1e8)
        board.release("beside", session=holder)
        board.edit("x", depends_on=["z"])
        blocked = whole(board, "x")
        assert refused(ItemNotClaimable, board.hand, "x", to=busy, session=holder).facts["blocked_by"] == ["z"]
        assert whole(board, "x") == blocked
        assert blocked["runs"] == before["runs"]
        board.edit("x", depends_on=[])
        assert board.hand("x", to=busy, session=holder, token=1).claim.token == 2
        beside = refused(ResourceBusy, board.claim, "beside", session=holder)
        assert beside.facts["holder"]["session"] == busy, "the resources of the item go with its claim"
        assert_sound(board)

    def test_the_queue_keeps_its_order_and_gets_no_offer(self, harness: Harness) -> None:
        board, holder, other = held(harness)
        first, second = session(board, "first"), session(board, "second")
        for waiter in (first, other, second):
            board.wait("x", session=waiter, ttl_seconds=600)
        board.hand("x", to=other, session=holder)
        assert [ticket.session for ticket in board.get("x").waiters] == [first, second]
        assert board.ticket("x", session=other).ticket.reason == "it was served"
        assert board.get("x").item.offered_to is None
        board.release("x", session=other)
        assert board.get("x").item.offered_to == first
        assert_sound(board)

    def test_a_claim_can_go_on_from_hand_to_hand_and_back(self, harness: Harness) -> None:
        board, holder, other = held(harness)
        at, to = holder, other
        for token in range(1, 6):
            assert board.hand("x", to=to, session=at, token=token).claim.token == token + 1
            at, to = to, at
        assert [run.session for run in board.runs(item="x")] == [other, holder, other, holder, other, holder]
        assert_sound(board)

    def test_a_repeated_request_hands_nothing_more(self, harness: Harness) -> None:
        board, holder, other = held(harness)
        first = board.hand("x", to=other, session=holder, token=1, request_id="r1")
        assert board.hand("x", to=other, session=holder, token=1, request_id="r1") == first
        assert board.get("x").item.token == 2


class TestHandingTogether:
    def test_a_hand_over_against_the_holders_other_calls_and_claims_is_before_or_after_them(
        self, harness: Harness
    ) -> None:
        """Processes hand an item over, end it by the old token and claim it, all at once."""
        board = harness.board()
        (giver, mine), (ender, _), (taker, other), (claimer, third) = cast_of(harness, 4)
        gate, met, calls = harness.gate(), Counter[tuple[str | None, str | None]](), list[recording.Call]()
        for number in range(harness.fewer(sizes.times(12))):
            item = f"item-{number}"
            added(board, item)
            calls.append(recording.heard(mine, "claim", item, None, giver.ask("claim", item, session=mine)))
            giver.send("hand", item, to=other, session=mine, token=1, at=gate)
            ender.send("release", item, session=mine, token=1, at=gate)
            claimer.send("claim", item, session=third, at=gate)
            gate.open()
            handed, released, claimed = giver.answer(), ender.answer(), claimer.answer()
            gate.close()
            met[handed.code, released.code] += 1
            assert (handed.error is None) != (released.error is None), f"{item}: {handed} and {released}"
            holder = board.get(item).claim
            if handed.error is None:
                assert holder is not None
                assert (holder.session, holder.token) == (other, 2)
                assert claimed.code == "TASK_ALREADY_CLAIMED"
                late = giver.ask("progress", item, note="late", session=mine, token=1)
                assert late.code == "NOT_CLAIM_OWNER"
                renewed = taker.ask("renew", item, session=other, token=2)
                calls.append(recording.heard(other, "renew", item, 2, renewed))
            calls.append(recording.heard(mine, "hand", item, 1, handed))
            calls.append(recording.heard(mine, "release", item, 1, released))
            calls.append(recording.heard(third, "claim", item, None, claimed))
        print(f"hand-overs against releases: {dict(met)}")
        assert_explained(calls, board)

    def test_a_token_is_worth_nothing_from_the_instant_in_which_its_claim_is_handed_on(self, harness: Harness) -> None:
        """Processes hand one item on, whoever holds it, while each works under the latest token that it was given."""
        board, seed = harness.board(), sizes.seed()
        cast, gate = cast_of(harness, 4), harness.gate()
        added(board, "x")
        board.claim("x", session=cast[0][1])
        calls = harness.fewer(sizes.times(60), 2)
        for number, (actor, me) in enumerate(cast):
            asked = {"me": me, "item": "x", "seed": seed + number, "calls": calls, "folder": str(harness.folder)}
            actor.play("dibs.testing.scenes:pass_on", **asked, gate=gate.path)
            actor.read("at_gate")
        gate.open()
        results = [actor.result() for actor, _ in cast]
        met: Counter[str] = sum((Counter(result["met"]) for result in results), Counter())
        print(f"seed {seed}: {dict(sorted(met.items()))}")
        assert met["hand"], "nothing was handed on"
        assert met["progress"], "nobody worked"
        assert met["progress NOT_CLAIM_OWNER"] + met["renew NOT_CLAIM_OWNER"], "no old token was shown"
        told = sorted(note for result in results for note in result["notes"])
        assert sorted(event.data["note"] for event in board.log("x") if event.kind == "progress") == told
        runs = board.runs(item="x", limit=4 * calls)
        assert [run.token for run in runs] == list(range(met["hand"] + 1, 0, -1))
        assert runs[0].outcome == ("done" if met["done"] else None)
        assert {run.outcome for run in runs[1:]} == {"handed"}
        assert_explained(recording.read(str(harness.folder)), board, f"seed {seed}:")

    def test_two_sessions_that_hand_to_each_other_do_not_block_each_other(self, harness: Harness) -> None:
        board = harness.board()
        board.set_agent("agent-0", max_claims_total=3)
        board.set_agent("agent-1", max_claims_total=3)
        (left, mine), (right, other) = cast_of(harness, 2)
        gate = harness.gate()
        added(board, "a", "b")
        board.claim("a", session=mine)
        board.claim("b", session=other)
        for token in range(1, harness.fewer(sizes.times(8)) + 1):
            (first, second) = ("a", "b") if token % 2 else ("b", "a")
            left.send("hand", first, to=other, session=mine, token=token, at=gate)
            right.send("hand", second, to=mine, session=other, token=token, at=gate)
            gate.open()
            answers = [left.answer(), right.answer()]
            gate.close()
            assert [answer.error for answer in answers] == [None, None]
        assert_sound(board)
