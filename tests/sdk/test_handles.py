"""How a claim in somebody's hands ends, and that the record says the same."""

from __future__ import annotations

import os
import threading

import pytest

from dibs.errors import AgentAtCapacity, ClaimExpired, DibsError, RateLimited, ResourceBusy
from dibs.testing.conformance.asking import added, kinds, refused
from dibs.testing.invariants import assert_sound
from tests.kit.waiting import until
from tests.sdk.conftest import Stage


class Broken(Exception):
    """What goes wrong in somebody's work."""


def test_leaving_is_done(stage: Stage) -> None:
    board = stage.far()
    added(board, "x")
    with board.session("coder") as me, me.claim("x") as claim:
        assert [held.item.id for held in me.claims] == ["x"]
        claim.check()
    assert claim.outcome == "done"
    assert claim.item.status == "done"
    assert not claim.lost.is_set()
    detail = stage.board.get("x")
    assert (detail.item.status, detail.runs[0].session) == ("done", me.id)
    assert stage.board.find_session(me.id).ended_at is not None


def test_an_exception_is_a_failure_with_what_and_where(stage: Stage) -> None:
    board = stage.far()
    added(board, "x")
    with board.session("coder") as me:
        with pytest.raises(Broken), me.claim("x"):
            raise Broken("no such branch")
        assert me.claims == ()
    run = stage.board.get("x").runs[0]
    assert run.outcome == "failed"
    assert run.reason is not None
    assert "no such branch" in run.reason
    assert "test_handles.py, line" in run.reason


def test_a_holder_reserves_more(stage: Stage) -> None:
    board = stage.far()
    added(board, "x", "y")
    with board.session("coder") as me, board.session("other") as other, me.claim("x") as claim, other.claim("y") as its:
        assert claim.reserve("src", "port:80").resources == ("src", "port:80") == claim.item.resources
        assert refused(ResourceBusy, its.reserve, "src/api").facts["holder"]["session"] == me.id
        assert its.item.resources == ()
    assert stage.board.get("x").item.resources == ("src", "port:80")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_gives_the_item_back(near_stage: Stage, interruption: type[BaseException]) -> None:
    board = near_stage.board
    added(board, "x")
    with board.session("coder") as me, pytest.raises(interruption), me.claim("x"):
        raise interruption
    detail = board.get("x")
    assert (detail.item.status, detail.runs[0].outcome) == ("ready", "released")
    assert detail.item.strikes == 0


def test_whatever_ends_it_leaving_adds_nothing(stage: Stage) -> None:
    board = stage.far()
    added(board, "submitted", "released", "parked", "rejected", "failed")
    with board.session("coder") as me:
        with me.claim("submitted") as claim:
            claim.progress("half of it", meta={"percent": 50})
            claim.submit("Dear customer", "a first version", links={"doc": "1"}, cost={"tokens": 3})
        with me.claim("released") as claim:
            claim.release("needs a designer")
        with me.claim("parked") as claim:
            claim.release(park=True)
        with me.claim("rejected") as claim:
            claim.reject("not our business")
        with me.claim("failed") as claim:
            claim.fail("cannot be reproduced", links={"log": "1"})
            refused(ClaimExpired, claim.done)
        assert me.claims == ()
    statuses = {item.id: item.status for item in stage.board.list()}
    assert statuses == {
        "submitted": "pending_approval",
        "released": "ready",
        "parked": "parked",
        "rejected": "rejected",
        "failed": "failed",
    }
    submitted = stage.board.get("submitted")
    assert submitted.runs[0].draft == "Dear customer"
    assert [note.note for note in submitted.notes] == ["half of it"]
    for item in statuses:
        assert kinds(stage.board, item).count("claimed") == 1
    assert_sound(stage.board)


def test_who_stops_because_it_was_told_to_has_not_failed(near_stage: Stage) -> None:
    board = near_stage.board
    added(board, "x")
    with board.session("coder") as me:
        claim = me.claim("x")
        board.force_release("x", reason="mine")
        claim.stop_renewing(
            ClaimExpired("taken away", item="x", token=claim.token, how="force_released", taken_over_by=None)
        )
        with pytest.raises(ClaimExpired), claim:
            claim.check()
    assert board.get("x").item.status == "ready"


def test_what_an_end_is_refused_for_is_raised_and_the_claim_goes_on(near_stage: Stage) -> None:
    board = near_stage.board
    board.set_agent("coder", sensitive_actions=["send"])
    board.add("mail", id="x", action="send")
    with board.session("coder") as me:
        claim = me.claim("x")
        with pytest.raises(DibsError, match="submit a draft"):
            claim.done()
        claim.check()
        assert me.claims == (claim,)
        claim.submit("Dear customer")


def test_a_failure_that_cannot_be_told_does_not_hide_what_failed(near_stage: Stage) -> None:
    board = near_stage.board
    added(board, "x")
    with board.session("coder") as me:
        claim = me.claim("x")
        board.force_release("x", reason="stuck")
        with pytest.raises(Broken) as raised, claim:
            raise Broken("no such branch")
        assert "could not be ended" in raised.value.__notes__[0]


def test_who_asks_for_what_it_has_gets_the_same_handle(near_stage: Stage) -> None:
    board = near_stage.board
    added(board, "x")
    with board.session("coder") as me:
        first = me.claim("x")
        assert me.claim("x") is first


def test_a_rate_is_waited_for_as_long_as_patience_lasts(stage: Stage) -> None:
    board = stage.far()
    board.set_agent("coder", claims_per_minute=60, claims_burst=1)
    added(board, "x", "y", "z")
    with board.session("coder") as me:
        assert me.next() is not None
        waited = me.next(patience_seconds=5)
        assert waited is not None
        refusal = refused(RateLimited, me.next, patience_seconds=0)
        assert 0 < refusal.facts["retry_after_seconds"] <= 1


def test_who_holds_all_it_may_is_told_at_once(stage: Stage) -> None:
    board = stage.far()
    board.set_agent("coder", max_claims=1)
    added(board, "x", "y")
    with board.session("coder") as me:
        with me.claim("x"):
            refused(AgentAtCapacity, me.next, wait_seconds=5)
            refused(AgentAtCapacity, me.claim, "y")
        assert me.claim("y").token == 1


def test_a_waiting_claim_gets_the_item_in_its_turn(stage: Stage) -> None:
    board = stage.far()
    added(board, "x")
    with board.session("ann") as ann, board.session("bob") as bob:
        first = ann.claim("x")
        got: list[int] = []
        waiter = threading.Thread(target=lambda: got.append(bob.claim("x", wait_seconds=30).token))
        waiter.start()
        while not stage.board.get("x").waiters and waiter.is_alive():
            pass
        first.release()
        waiter.join()
        assert got == [2]


def test_nothing_to_do_is_none(stage: Stage) -> None:
    board = stage.far()
    with board.session("coder") as me:
        assert me.next() is None
        assert me.next(wait_seconds=0.05) is None
        assert me.next_of(3, types=["bug"]) == []
    with pytest.raises(DibsError, match="has ended"):
        me.next()


def test_what_was_given_in_one_step_is_held_one_by_one(stage: Stage) -> None:
    board = stage.far()
    added(board, *(f"item-{n}" for n in range(5)))
    with board.session("coder") as me:
        claims = me.next_of(5)
        assert len({claim.item.id for claim in claims}) == 5
        for claim in claims[:3]:
            claim.done()
    counts = [item.status for item in stage.board.list(limit=10)]
    assert sorted(counts) == ["done"] * 3 + ["ready"] * 2


def test_no_thread_and_no_descriptor_is_left_behind(stage: Stage) -> None:
    board = stage.far()
    added(board, *(f"item-{n}" for n in range(20)))

    def one(number: int) -> None:
        with board.session("coder") as me, me.claim(f"item-{number}"):
            pass

    for number in range(5):
        one(number)
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for number in range(5, 20):
        one(number)
    # Some of them end a moment later: a notification that is sent together with others has a timer.
    until(lambda: threading.active_count() <= threads and len(os.listdir("/proc/self/fd")) <= descriptors)
