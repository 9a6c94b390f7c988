"""How long a session lives, and what becomes of its claims: whatever its process does, and however it ends."""

from __future__ import annotations

import signal

import pytest

from dibs.errors import DibsError
from dibs.testing.conformance.asking import kinds, latest, session
from dibs.testing.invariants import assert_sound
from tests.sdk.conftest import TTL_SECONDS, Stage, told

LONG_SECONDS = 1.6 * TTL_SECONDS


def test_a_program_that_is_told_to_stop_gives_back_what_it_holds(stage: Stage) -> None:
    stage.board.add("do it", id="x")
    actor = stage.actor()
    actor.play("tests.sdk.acting:stopped_by_sigterm", item="x", own_handler=False)
    me = actor.read("holds")["session"]
    actor.process.send_signal(signal.SIGTERM)
    assert actor.process.wait(30) == 128 + signal.SIGTERM
    assert stage.board.get("x").item.status == "ready"
    assert stage.board.get("x").runs[0].outcome == "released"
    assert stage.board.find_session(me).ended_at is not None
    assert latest(stage.board, "x").kind == "released"


def test_a_programs_own_handler_is_left_alone(near_stage: Stage) -> None:
    near_stage.board.add("do it", id="x")
    actor = near_stage.actor()
    actor.play("tests.sdk.acting:stopped_by_sigterm", item="x", own_handler=True)
    actor.read("holds")
    actor.process.send_signal(signal.SIGTERM)
    assert actor.result() == {"told": [signal.SIGTERM], "handler_left": True}
    assert near_stage.board.get("x").item.status == "done"


def test_a_program_that_ends_with_its_session_open_ends_it(stage: Stage) -> None:
    stage.board.add("do it", id="x")
    actor = stage.actor()
    actor.play("tests.sdk.acting:never_left", item="x")
    me = actor.read("holds")["session"]
    assert actor.process.wait(30) == 0
    assert stage.board.get("x").item.status == "ready"
    assert stage.board.find_session(me).ended_at is not None


@pytest.mark.parametrize("in_c", [False, True], ids=["asleep", "in C"])
def test_a_blocked_thread_does_not_cost_the_claim(near_stage: Stage, in_c: bool) -> None:
    holds_through(near_stage, in_c)


def test_a_blocked_thread_does_not_cost_a_claim_behind_a_network(far_stage: Stage) -> None:
    holds_through(far_stage, in_c=False)


def holds_through(stage: Stage, in_c: bool) -> None:
    holder = stage.holder("x")
    blocked = told(holder, "block", seconds=LONG_SECONDS, in_c=in_c)
    assert blocked == {"token": 1, "lost": False, "how": None, "outcome": None}
    claim = stage.board.get("x").claim
    assert claim is not None
    assert claim.heartbeat_count > 1
    assert told(holder, "end") is None
    assert kinds(stage.board, "x").count("claimed") == 1


def test_a_forked_child_leaves_the_claim_to_its_parent(stage: Stage) -> None:
    holder = stage.holder("x")
    forked = told(holder, "fork", seconds=LONG_SECONDS)
    assert forked == {"child": 0, "token": 1, "lost": False, "how": None, "outcome": None}
    assert stage.board.get("x").item.status == "in_progress"
    assert told(holder, "end") is None
    holder.send("leave")
    assert holder.result() == "left"
    assert [run.outcome for run in stage.board.get("x").runs] == ["done"]


def test_what_a_killed_process_held_is_done_by_another(stage: Stage) -> None:
    holder = stage.holder("x")
    holder.kill()
    board = stage.far()
    # By its dead owner, or where that cannot be judged, by the end of its TTL.
    with board.session("coder") as me, me.claim("x", wait_seconds=60) as claim:
        assert claim.token == 2
        assert claim.previous is not None
    runs = stage.board.get("x").runs
    assert [run.outcome for run in runs[:1]] == ["done"]
    assert runs[1].outcome in ("owner_died", "expired")
    assert_sound(stage.board)


def test_who_comes_gives_back_what_the_dead_held_before_it_takes_anything(near_stage: Stage) -> None:
    board = near_stage.board
    holder = near_stage.holder("urgent", ttl_seconds=600)
    board.add("something else", id="later", priority=-5)
    holder.kill()
    with board.session("coder") as me:
        claim = me.next()
        assert claim is not None
        with claim:
            assert claim.item.id == "urgent"


def test_a_session_that_somebody_ended_tells_its_handles(near_stage: Stage) -> None:
    holder = near_stage.holder("x", ttl_seconds=1.5)
    (view,) = near_stage.board.sessions()
    near_stage.board.end_session(view.session.id)
    found = told(holder, "await_lost")
    assert found["lost"]
    assert told(holder, "end") in ("SESSION_NOT_FOUND", "TASK_NOT_CLAIMED")
    assert near_stage.board.claim("x", session=session(near_stage.board)).claim.token == 2


def test_a_session_ends_with_its_parent_and_its_handles_are_lost(near_stage: Stage) -> None:
    board = near_stage.board
    board.add("do it", id="x")
    with board.session("coder") as main:
        sub = board.session("coder", parent=main.id)
        assert sub.record.parent == main.id
        claim = sub.claim("x")
    with pytest.raises(DibsError) as refused:
        claim.done()
    assert refused.value.code in ("SESSION_NOT_FOUND", "TASK_NOT_CLAIMED")
    assert latest(board, "x").data["reason"] == "its parent session ended"
    sub.end()
