"""A claim that cannot be kept: its holder knows before anybody else can have it, and does no harm afterwards."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dibs.errors import ClaimExpired
from dibs.sdk.claim_handle import MARGIN_SHARE
from dibs.sdk.heartbeat import clock
from dibs.system import token_file
from dibs.testing.actors import Actor
from dibs.testing.conformance.asking import added, kinds, refused, session, until
from dibs.testing.invariants import assert_sound
from tests.kit.stopping_clock import StoppingClock
from tests.sdk.conftest import TTL_SECONDS, Stage, told


def await_expiry(stage: Stage, item: str) -> None:
    """Let real time pass until the claim is over, by the store's word."""
    until(stage.board, lambda: stage.board.get(item).claim is None, f"the claim of {item} expires")


def test_who_stood_still_goes_on_if_nobody_was_given_the_item(stage: Stage) -> None:
    holder = stage.holder("x")
    holder.stop()
    await_expiry(stage, "x")
    holder.resume()
    assert told(holder, "await_token", beyond=1) == {"token": 2, "lost": False, "how": None, "outcome": None}
    assert told(holder, "check") is None
    assert told(holder, "end") is None
    assert [run.outcome for run in stage.board.get("x").runs] == ["done", "expired"]
    assert_sound(stage.board)


def test_who_stood_still_and_asks_at_once_is_not_told_too_early(stage: Stage) -> None:
    """Woken late, the first thing a program does may be to check: then a heartbeat decides, not the clock."""
    holder = stage.holder("x")
    holder.stop()
    await_expiry(stage, "x")
    holder.send("check")
    holder.resume()
    assert holder.read("did")["did"] is None
    assert told(holder, "look")["token"] == 2


def test_who_stood_still_knows_that_somebody_took_over(stage: Stage) -> None:
    holder = stage.holder("x")
    holder.stop()
    await_expiry(stage, "x")
    board = stage.board
    other = session(board, "other")
    assert board.claim("x", session=other, ttl_seconds=60).claim.token == 2
    holder.resume()
    assert told(holder, "await_lost")["token"] == 1
    assert told(holder, "check") == "CLAIM_EXPIRED"
    assert told(holder, "end") == "CLAIM_EXPIRED", "a late end was accepted"
    board.done("x", session=other, token=2)
    assert [run.outcome for run in board.get("x").runs] == ["done", "expired"]
    assert kinds(board, "x").count("done") == 1
    assert_sound(board)


def test_who_does_not_recover_is_told_that_it_is_lost(near_stage: Stage) -> None:
    holder = near_stage.holder("x", recover=False)
    holder.stop()
    await_expiry(near_stage, "x")
    holder.resume()
    assert told(holder, "await_lost")["token"] == 1
    assert told(holder, "end") == "CLAIM_EXPIRED"
    assert near_stage.board.claim("x", session=session(near_stage.board)).claim.token == 2


@pytest.mark.parametrize("way", ["cut", "hold"])
def test_who_is_cut_off_knows_before_the_board_gives_the_item_away(far_stage: Stage, way: str) -> None:
    """`cut`: every call is refused at once; `hold`: a call hangs for longer than the claim lasts."""
    ttl_seconds = 5.0
    holder = far_stage.holder("x", ttl_seconds)
    getattr(far_stage.line, way)()
    # Looked at before it is over: what is renewed from now on is not heard of by its holder.
    claim = far_stage.board.get("x").claim
    assert claim is not None
    known = told(holder, "await_lost")
    assert known["how"] == "unheard"
    early_seconds = (claim.expires_at - known["at"]) / 1000
    assert early_seconds > MARGIN_SHARE * ttl_seconds / 2, f"known {early_seconds:.3f} s before the expiry"
    assert far_stage.line.broken + far_stage.line.waited > 0, "nothing was cut"
    await_expiry(far_stage, "x")
    far_stage.line.mend()
    # Nobody took it, so the work is not lost: it ends under a new token.
    assert told(holder, "end") is None
    assert [run.outcome for run in far_stage.board.get("x").runs] == ["done", "expired"]


def test_a_late_result_of_who_was_cut_off_is_refused(far_stage: Stage) -> None:
    holder = far_stage.holder("x")
    far_stage.line.cut()
    told(holder, "await_lost")
    await_expiry(far_stage, "x")
    board = far_stage.board
    other = session(board, "other")
    assert board.claim("x", session=other, ttl_seconds=60).claim.token == 2
    far_stage.line.mend()
    assert told(holder, "end") == "CLAIM_EXPIRED"
    assert board.get("x").claim is not None, "a late end took it from its holder"


def test_a_short_absence_of_the_store_costs_nothing(far_stage: Stage) -> None:
    ttl_seconds = 12.0
    holder = far_stage.holder("x", ttl_seconds)
    before = far_stage.board.get("x").claim
    assert before is not None
    far_stage.line.cut()
    board = far_stage.board
    # Longer than a heartbeat, which was due after a third of the TTL, and shorter than the claim.
    end = clock() + ttl_seconds / 2
    while far_stage.line.broken < 3 and clock() < end:
        time.sleep(0.02)  # bounded polling: a cut line tells nobody
    assert far_stage.line.broken > 0
    far_stage.line.mend()
    until(board, lambda: board.who()[0].claim.renewed_at > before.renewed_at, "a heartbeat gets through")  # type: ignore[union-attr]
    assert told(holder, "look") == {"token": 1, "lost": False, "how": None, "outcome": None}
    assert told(holder, "end") is None


def test_a_jump_of_the_boards_clock_is_recovered_from(stage: Stage) -> None:
    holder = stage.holder("x")
    stage.harness.clock.advance(3600)
    assert told(holder, "await_token", beyond=1) == {"token": 2, "lost": False, "how": None, "outcome": None}
    assert told(holder, "end") is None
    assert [run.outcome for run in stage.board.get("x").runs] == ["done", "expired"]


def test_a_jump_after_which_somebody_took_over_is_told(stage: Stage) -> None:
    holder = stage.holder("x")
    holder.stop()
    stage.harness.clock.advance(3600)
    assert stage.board.claim("x", session=session(stage.board, "other"), ttl_seconds=60).claim.token == 2
    holder.resume()
    found = told(holder, "await_lost")
    assert found["token"] == 1
    assert told(holder, "end") == "CLAIM_EXPIRED"


def test_a_call_that_hangs_does_not_keep_its_holder_from_knowing(near_stage: Stage) -> None:
    """Somebody stands still with the lock of the file in hand, so heartbeats wait for it, for long."""
    kwargs = near_stage.recipe["kwargs"]
    patient = {**kwargs, "settings": {**kwargs["settings"], "lock_wait_seconds": 60.0}}
    board = near_stage.board
    added(board, "x", "y")
    board.start_session("other", id="other")
    actor = Actor({**near_stage.recipe, "kwargs": patient}, near_stage.harness.folder)
    stopped = Actor({**near_stage.recipe, "kwargs": {**kwargs, "stopping": True}}, near_stage.harness.folder)
    try:
        for started in (actor, stopped):
            started.await_ready()
        actor.play("tests.sdk.acting:holding", item="x", ttl_seconds=TTL_SECONDS)
        actor.read("holds")
        StoppingClock(kwargs["clock"]).arm()
        stopped.send("claim", "y", session="other")
        stopped.await_stop()
        claim = board.get("x").claim
        assert claim is not None
        known = told(actor, "await_lost")
        assert known["how"] == "unheard"
        assert known["at"] < claim.expires_at
    finally:
        stopped.end()
        actor.end()


def test_what_was_swept_while_somebody_waits_is_recovered_all_the_same(near_stage: Stage) -> None:
    """While a claim is being asked for, nobody tells what is held; what was not renewed is missed nevertheless."""
    board = near_stage.board
    added(board, "x", "y")
    other = session(board, "other")
    board.claim("y", session=other)
    with board.session("coder", ttl_seconds=TTL_SECONDS) as me:
        claim = me.claim("x")
        waiting = threading.Thread(target=lambda: me.claim("y", wait_seconds=30), daemon=True)
        waiting.start()
        until(board, lambda: bool(board.get("y").waiters), "it waits")
        near_stage.harness.clock.advance(TTL_SECONDS + 1)
        board.sweep()
        end = time.monotonic() + 30
        while claim.token == 1 and not claim.lost.wait(0.01) and time.monotonic() < end:
            pass
        assert (claim.token, claim.lost.is_set()) == (2, False)
        board.release("y", session=other)
        waiting.join(30)


def test_the_time_an_item_gives_is_not_prolonged_by_recovering(near_stage: Stage) -> None:
    board = near_stage.board
    board.add("do it", id="x", timeout_seconds=2)
    with board.session("coder", ttl_seconds=TTL_SECONDS) as me:
        claim = me.claim("x")
        assert claim.lost.wait(30)
        assert refused(ClaimExpired, claim.check).facts["how"] == "timeout"
        await_expiry(near_stage, "x")
        assert board.claim("x", session=session(board, "other")).claim.token == 2


def test_who_stood_still_past_the_time_of_the_item_has_lost_it(near_stage: Stage) -> None:
    board = near_stage.board
    board.add("do it", id="x", timeout_seconds=60)
    with board.session("coder", ttl_seconds=600) as me:
        claim = me.claim("x")
        near_stage.harness.clock.advance(61)
        me._keeper.heartbeat.beat_within(0)
        assert claim.lost.wait(30)
        assert claim.token == 1
        assert board.get("x").item.token == 1, "it was claimed again"


def test_progress_after_an_expiry_goes_on_under_a_new_token(stage: Stage) -> None:
    board = stage.far()
    added(board, "x")
    with board.session("coder") as me:
        claim = me.claim("x")
        stage.harness.clock.advance(7200)
        claim.progress("still at it")
        assert claim.token == 2
        assert not claim.lost.is_set()
        claim.check()
        claim.done()
    assert [run.outcome for run in stage.board.get("x").runs] == ["done", "expired"]


def test_a_lost_claim_is_had_again_by_asking(stage: Stage) -> None:
    board = stage.far()
    added(board, "x")
    with board.session("coder", recover=False) as me:
        claim = me.claim("x")
        stage.harness.clock.advance(7200)
        refused(ClaimExpired, claim.progress, "still at it")
        claim.recover()
        assert (claim.token, claim.lost.is_set()) == (2, False)
        claim.progress("now")
        claim.recover()
        assert claim.token == 2
        stage.harness.clock.advance(7200)
        claim.recover()
        assert claim.token == 3, "an old answer was taken for a new one"
        claim.done()


def test_an_end_that_meets_a_recovery_under_way_joins_it(near_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heart has it again, and has not heard so yet."""
    board = near_stage.far()
    added(board, "x")
    with board.session("coder", ttl_seconds=TTL_SECONDS) as me:
        claim = me.claim("x")
        is_recovered, may_hear, recover = threading.Event(), threading.Event(), board.recover

        def slowly(*args: Any, **asked: Any) -> Any:
            grant = recover(*args, **asked)
            if threading.current_thread().name == "dibs heartbeat":
                is_recovered.set()
                assert may_hear.wait(30)
            return grant

        monkeypatch.setattr(board, "recover", slowly)
        near_stage.harness.clock.advance(7200)
        assert is_recovered.wait(30)
        assert claim.token == 1
        claim.done("so")
        may_hear.set()
        assert (claim.token, claim.outcome) == (2, "done")
    assert [run.outcome for run in near_stage.board.get("x").runs] == ["done", "expired"]


@pytest.mark.parametrize("is_written", [True, False])
def test_what_a_process_that_works_for_it_has_recovered_is_its_own(
    stage: Stage, tmp_path: Path, is_written: bool
) -> None:
    """If that wrote it down: somebody who came by the session's name is somebody else."""
    board = stage.far()
    added(board, "x")
    with board.session("coder", ttl_seconds=TTL_SECONDS) as me:
        claim = me.claim("x")
        (tmp_path / "tokens").write_text("1\n")
        claim.token_file = str(tmp_path / "tokens")
        stage.harness.clock.advance(7200)
        if is_written:
            token_file.append(claim.token_file, 2)
        assert stage.board.recover("x", session=me.id, token=1).claim.token == 2
        until(stage.board, lambda: claim.token == 2 or claim.lost.is_set(), "the heart hears of it")
        assert claim.lost.is_set() != is_written
        if is_written:
            claim.done()
            assert stage.board.get("x").runs[0].outcome == "done"
