"""A session that is awaited is the same session: its loop goes on, and what nobody waits for is given back."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
import time

import pytest

from dibs.sdk.async_session import AsyncClaim, AsyncSession
from dibs.sdk.claim_handle import ClaimHandle
from dibs.sdk.session import LiveSession
from dibs.testing.conformance.asking import added, kinds, session, until
from tests.kit.waiting import PATIENCE_SECONDS
from tests.sdk.conftest import Stage


class Broken(Exception):
    """What goes wrong in somebody's work."""


def test_leaving_is_done_and_an_exception_is_a_failure(stage: Stage) -> None:
    board = stage.far()
    added(board, "x", "y", "z")

    async def work() -> None:
        async with board.asession("coder") as me:
            claim = await me.next()
            assert claim is not None
            async with claim:
                await claim.progress("half of it")
                await claim.check()
                assert [held.item.id for held in me.claims] == [claim.item.id]
            assert claim.outcome == "done"
            with pytest.raises(Broken):
                async with await me.claim("y"):
                    raise Broken("no such branch")
            (last,) = await me.next_of(3)
            await last.submit("Dear customer")
            annotated = await me.annotate(last.item.id, checks={"spelling": "passed"})
            assert (annotated.run.checks, annotated.run.draft) == ({"spelling": {"state": "passed"}}, "Dear customer")
            assert await me.next(wait_seconds=0.05) is None
            given = await me.claim_subject("github:acme/shop#12", id="w", title="Fix login")
            assert (await given.hand(other, "yours")).claim.session == other
            assert (given.outcome, me.claims) == ("handed", ())

    other = board.start_session("reviewer").id
    asyncio.run(work())
    statuses = {item.id: item.status for item in stage.board.list(limit=10)}
    assert statuses == {"x": "done", "y": "failed", "z": "pending_approval", "w": "in_progress"}
    assert [seen.session.id for seen in stage.board.sessions()] == [other]


def test_the_loop_goes_on_while_somebody_waits(near_stage: Stage) -> None:
    board = near_stage.board

    async def work() -> str:
        async with board.asession("coder") as me:
            waits = [asyncio.create_task(me.next(wait_seconds=PATIENCE_SECONDS)) for _ in range(4)]
            await asyncio.sleep(0)
            await asyncio.to_thread(added, board, *(f"item-{n}" for n in range(4)))
            claims = await asyncio.gather(*waits)
            for claim in claims:
                assert claim is not None
                await claim.done()
        return "all"

    assert asyncio.run(work()) == "all"
    assert {item.status for item in board.list(limit=10)} == {"done"}


def test_a_cancelled_wait_gives_back_what_it_may_still_be_given(stage: Stage) -> None:
    board = stage.far()

    async def work() -> None:
        async with board.asession("coder") as me:
            waiting = asyncio.create_task(me.next(wait_seconds=PATIENCE_SECONDS))
            await asyncio.to_thread(until_asked, me.live)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.to_thread(added, stage.board, "x")
            await asyncio.to_thread(until, stage.board, lambda: "released" in kinds(stage.board, "x"), "given back")
            assert me.claims == ()

    asyncio.run(work())
    assert stage.board.get("x").item.status == "ready"
    assert stage.board.get("x").item.strikes == 0


def until_asked(live: object) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not live._keeper.gate._requests and time.monotonic() < end:  # type: ignore[attr-defined]
        time.sleep(0.005)  # bounded: another thread is at it


def test_a_cancelled_turn_leaves_the_queue(near_stage: Stage) -> None:
    board = near_stage.board
    added(board, "x")
    other = session(board, "other")
    board.claim("x", session=other)

    async def work() -> None:
        async with board.asession("coder") as me:
            waiting = asyncio.create_task(me.claim("x", wait_seconds=600))
            await asyncio.to_thread(until, board, lambda: bool(board.get("x").waiters), "it waits")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            board.add("something changes", id="y")
            await asyncio.to_thread(until, board, lambda: not board.get("x").waiters, "it left")

    asyncio.run(work())
    board.release("x", session=other)
    assert board.get("x").item.status == "ready"


def test_a_cancelled_task_gives_its_item_back(near_stage: Stage) -> None:
    board = near_stage.board
    added(board, "x")

    async def work() -> None:
        async with board.asession("coder") as me:
            begun = asyncio.Event()

            async def forever() -> None:
                async with await me.claim("x"):
                    begun.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(forever())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert board.get("x").runs[0].outcome == "released"

    asyncio.run(work())


def test_who_waits_for_a_loss_is_woken_by_it(near_stage: Stage) -> None:
    board = near_stage.board
    added(board, "x")

    async def work() -> None:
        async with board.asession("coder", recover=False) as me:
            claim = await me.claim("x")
            lost = asyncio.create_task(claim.until_lost())
            await asyncio.sleep(0)
            assert not lost.done()
            board.force_release("x", reason="stuck")
            me.live._keeper.heartbeat.beat_within(0)
            await asyncio.wait_for(lost, PATIENCE_SECONDS)
            assert claim.is_lost
            assert claim.lost_by is not None
            await claim.until_lost()
            assert claim.handle._callbacks == []

    asyncio.run(work())


def test_a_program_that_awaits_ends_its_session_when_it_is_told_to_stop(near_stage: Stage) -> None:
    near_stage.board.add("do it", id="x")
    actor = near_stage.actor()
    actor.play("tests.sdk.acting:awaiting", item="x")
    actor.read("holds")
    actor.process.send_signal(signal.SIGTERM)
    assert actor.process.wait(30) == 128 + signal.SIGTERM
    assert near_stage.board.get("x").runs[0].outcome == "released"
    assert near_stage.board.sessions() == ()


def test_a_signal_between_two_callbacks_of_the_loop_loses_none_of_them(near_stage: Stage) -> None:
    near_stage.board.add("do it", id="x")
    actor = near_stage.actor()
    actor.play("tests.sdk.acting:awaiting_a_signal_inside_the_loop", item="x")
    assert actor.process.wait(30) == 128 + signal.SIGTERM
    assert near_stage.board.get("x").runs[0].outcome == "released"


def test_no_thread_is_left_behind(near_stage: Stage) -> None:
    board = near_stage.board
    added(board, "x")

    async def work() -> None:
        async with board.asession("coder") as me, await me.claim("x") as claim:
            await claim.progress("at it")

    before = threading.active_count()
    asyncio.run(work())
    end = time.monotonic() + PATIENCE_SECONDS
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.005)  # bounded: a thread that has answered is about to end
    assert threading.active_count() <= before


def test_a_session_begins_when_it_is_entered(near_stage: Stage) -> None:
    me = near_stage.board.asession("coder")
    with pytest.raises(RuntimeError, match="async with"):
        _ = me.id
    assert near_stage.board.sessions() == ()


def test_every_verb_has_the_parameters_of_the_session_and_of_the_handle() -> None:
    for name in ("check", "verify", "progress", "done", "fail", "submit", "release", "reject", "recover"):
        verb = getattr(AsyncClaim, name)
        assert inspect.iscoroutinefunction(verb)
        assert inspect.signature(verb) == inspect.signature(getattr(ClaimHandle, name))
    for name in ("next", "next_of"):
        assert inspect.signature(getattr(AsyncSession, name)) == inspect.signature(getattr(LiveSession, name))
    ours, theirs = inspect.signature(AsyncSession.claim), inspect.signature(LiveSession.claim)
    assert set(theirs.parameters) - set(ours.parameters) == {"on_wait"}
