"""Workers: what they take, how each item ends, and that nothing which goes wrong with one stops the others."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.errors import Invalid, StoreUnavailable, StoreUnusable
from dibs.sdk.async_session import AsyncClaim
from dibs.sdk.claim_handle import ClaimHandle
from dibs.store.sqlite.bell import BellWatch
from dibs.testing.harness import Harness
from dibs.worker import handler_loop
from dibs.worker.worker import WAIT_SECONDS, CannotBegin, Draft, Worker
from tests.conformance.conftest import folder
from tests.kit import sqlite
from tests.kit.waiting import PATIENCE_SECONDS, until
from tests.sdk.workers import Heard, Ran, running

__all__ = ["folder"]

SETTINGS: dict[str, Any] = {"ttl_seconds_min": 0.5, "retry_backoff_seconds": 0.1}


@pytest.fixture
def harness(folder: Path) -> Iterator[Harness]:
    with sqlite.harness(folder, **SETTINGS) as harness:
        yield harness


@pytest.fixture
def board(harness: Harness) -> Board:
    return harness.board()


def added(board: Board, *ids: str, **fields: Any) -> None:
    for id in ids:
        board.add(f"do {id}", id=id, **fields)


def statuses(board: Board) -> dict[str, str]:
    return {item.id: item.status for item in board.list(limit=100)}


def test_once_does_not_wait_for_others_of_its_name(board: Board) -> None:
    board.set_agent("coder", max_claims_total=1)
    added(board, "held", "free")
    with board.session("coder") as other, other.claim("held") as claim:
        worker = Worker(board, "coder")
        worker.handles()(lambda claim: None)
        assert worker.run(once=True) == {}
        claim.release()
    assert statuses(board) == {"held": "ready", "free": "ready"}


class TestHowAnItemEnds:
    def test_a_refusal_about_something_else_is_a_failure_of_this_one(self, board: Board) -> None:
        added(board, "asks")
        worker = Worker(board, "coder")

        @worker.handles()
        def asks(claim: ClaimHandle) -> None:
            board.get("no-such-item")

        assert worker.run(once=True) == {"failed": 1}
        assert statuses(board) == {"asks": "failed"}

    def test_what_no_store_can_keep_of_an_exception_costs_no_item(self, board: Board) -> None:
        added(board, "odd")
        worker = Worker(board, "coder")

        @worker.handles()
        def odd(claim: ClaimHandle) -> None:
            raise ValueError("nought \0 and half a letter \udce9")

        assert worker.run(once=True) == {"failed": 1}
        assert "nought \ufffd" in (board.runs(item="odd")[0].reason or "")

    def test_what_could_not_be_ended_is_not_kept_either(self, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
        added(board, "stuck")
        worker = Worker(board, "coder")
        seen: list[ClaimHandle] = []

        def refuse(*_: object, **__: object) -> None:
            raise Invalid("not so")

        @worker.handles()
        def stuck(claim: ClaimHandle) -> None:
            seen.append(claim)
            raise ValueError("broken")

        monkeypatch.setattr(board, "fail", refuse)
        assert worker.run(once=True) == {"failed": 1}
        assert seen[0].lost.is_set()
        assert seen[0] not in seen[0].session.claims

    def test_what_a_handler_returns_is_how_it_ends(self, board: Board) -> None:
        added(board, "nothing", "note", "fields", "draft", "itself")
        results = {
            "nothing": None,
            "note": "all well",
            "fields": {"note": "merged", "links": {"pr": 7}, "cost": {"usd": 0.5}},
            "draft": Draft("Dear all,"),
        }
        worker = Worker(board, "coder")

        @worker.handles(max_claims=5)
        def handle(claim: ClaimHandle) -> object:
            if claim.item.id == "itself":
                claim.release("not today", park=True)
                return "nobody reads this"
            return results[claim.item.id]

        assert worker.run(once=True) == {"done": 3, "submitted": 1, "released": 1}
        runs = {run.item: run for run in board.runs()}
        assert {id: run.outcome for id, run in runs.items()} == {
            "nothing": "done",
            "note": "done",
            "fields": "done",
            "draft": "submitted",
            "itself": "released",
        }
        assert (runs["nothing"].reason, runs["note"].reason) == (None, "all well")
        assert (runs["fields"].reason, runs["fields"].links, runs["fields"].cost) == ("merged", {"pr": 7}, {"usd": 0.5})
        assert (runs["draft"].draft, statuses(board)["draft"]) == ("Dear all,", "pending_approval")
        assert statuses(board)["itself"] == "parked"

    def test_what_could_not_begin_is_put_off(self, board: Board) -> None:
        added(board, "x")
        worker = Worker(board, "coder", tell=(heard := Heard()))
        ready = threading.Event()

        @worker.handles(max_claims=2)
        def handle(claim: ClaimHandle) -> None:
            if not ready.is_set():
                raise CannotBegin("the licence server\0 is away")

        with running(worker):
            heard.until("released", times=3)
            ready.set()
            heard.until("done")
        assert heard.of("waiting") == ["the licence server\0 is away"], "once"
        item = board.get("x")
        assert (item.item.strikes, item.runs[-1].reason) == (0, "the licence server\ufffd is away")

    def test_what_was_released_does_not_stand_before_all_others(self, board: Board) -> None:
        added(board, "later", priority=9)
        added(board, "a", "b")
        tries: list[str] = []
        worker = Worker(board, "coder")

        @worker.handles()
        def handle(claim: ClaimHandle) -> None:
            tries.append(claim.item.id)
            if claim.item.id == "later":
                claim.release("rate limited")

        for _ in range(2):
            assert Ran(worker, once=True).join()["released"] >= 1
        assert tries == ["later", "a", "b", "later"]
        assert statuses(board) == {"later": "ready", "a": "done", "b": "done"}
        assert board.get("later").item.strikes == 0

    def test_what_is_released_is_not_tried_again_without_a_pause(self, board: Board) -> None:
        added(board, "later")
        worker = Worker(board, "coder", tell=(heard := Heard()))
        tries: list[float] = []

        @worker.handles()
        def handle(claim: ClaimHandle) -> None:
            tries.append(time.monotonic())
            if len(tries) < 4:
                claim.release("rate limited")

        with running(worker):
            heard.until("done")
        assert heard.of("waiting") == ["later was released: rate limited"]
        assert tries[3] - tries[0] > 3 * handler_loop.PAUSE_SECONDS

    def test_what_is_parked_costs_no_pause(self, board: Board) -> None:
        added(board, "later", "a")
        worker = Worker(board, "coder", tell=(heard := Heard()))
        worker.handles()(lambda claim: claim.release("by hand", park=True) and None)
        with running(worker):
            heard.until("released", times=2)
        assert heard.of("waiting") == []

    def test_a_coroutine_is_given_what_it_awaits(self, board: Board) -> None:
        board.set_agent("coder", allowed_actions=["send"], sensitive_actions=["send"])
        board.set_agent("cloud", sensitive_actions=["send"])
        added(board, "mail", action="send")
        with board.session("cloud") as me, me.claim("mail") as claim:
            claim.submit("Dear all,")
        board.approve("mail", actor="alice")
        worker = Worker(board, "coder")

        @worker.handles()
        async def handle(claim: AsyncClaim) -> str:
            await claim.verify()
            await claim.progress("sending")
            assert claim.approval is not None
            assert claim.previous is not None
            return f"{claim.approval.actor}: {claim.approved_draft}"

        assert worker.run(once=True) == {"done": 1}
        assert board.get("mail").runs[0].reason == "alice: Dear all,"

    def test_an_object_whose_call_is_awaited_is_given_it_too(self, board: Board) -> None:
        class Awaited:
            async def __call__(self, claim: AsyncClaim) -> None:
                await claim.done("so")

        added(board, "x")
        worker = Worker(board, "coder")
        worker.handles()(Awaited())
        assert worker.run(once=True) == {"done": 1}

    def test_a_coroutine_does_as_well(self, board: Board) -> None:
        added(board, "a", "b", "c")
        together, inside = asyncio.Event(), set[str]()
        worker = Worker(board, "coder")

        @worker.handles(max_claims=3)
        async def handle(claim: ClaimHandle) -> str:
            inside.add(claim.item.id)
            if len(inside) == 3:
                together.set()
            await asyncio.wait_for(together.wait(), PATIENCE_SECONDS)
            return "together"

        assert worker.run(once=True) == {"done": 3}
        assert {run.reason for run in board.runs()} == {"together"}

    def test_an_exception_is_a_failure_that_says_what_and_where(self, board: Board) -> None:
        added(board, "bad", "worse", "left", "odd", "unknown", "good")
        worker = Worker(board, "coder")

        @worker.handles()
        def handle(claim: ClaimHandle) -> object:
            match claim.item.id:
                case "bad":
                    raise ValueError("no such branch")
                case "worse":
                    raise BaseException("worse than that")
                case "left":
                    sys.exit(3)
                case "odd":
                    return 42
                case "unknown":
                    return {"result": "fine"}
            return None

        assert worker.run(once=True) == {"failed": 5, "done": 1}
        reasons = {run.item: run.reason or "" for run in board.runs()}
        assert reasons["bad"].startswith("ValueError: no such branch (test_worker.py, line ")
        assert reasons["worse"].startswith("BaseException: worse than that")
        assert reasons["left"].startswith("SystemExit: 3")
        assert "a handler returns None, a note, a Draft or a dict of cost, links, note, not 42" in reasons["odd"]
        assert "not {'result': 'fine'}" in reasons["unknown"]
        assert statuses(board)["good"] == "done"

    def test_a_coroutine_that_wants_to_leave_takes_nobody_along(self, board: Board) -> None:
        added(board, "leaves", priority=9)
        added(board, "a", "b")
        worker = Worker(board, "coder")

        @worker.handles(max_claims=3)
        async def handle(claim: ClaimHandle) -> None:
            if claim.item.id == "leaves":
                sys.exit(3)
            await asyncio.sleep(0.05)

        assert Ran(worker, once=True).join() == {"failed": 1, "done": 2}
        assert (board.get("leaves").runs[0].reason or "").startswith("SystemExit: 3")

    def test_what_may_only_be_drafted_is_not_done(self, board: Board) -> None:
        board.set_agent("cloud", sensitive_actions=["send"])
        added(board, "mail", action="send")
        worker = Worker(board, "cloud")
        worker.handles()(lambda claim: "sent it")
        assert worker.run(once=True) == {"failed": 1}
        assert "submit a draft instead" in (board.get("mail").runs[0].reason or "")

    def test_a_handler_may_reject_what_it_holds(self, board: Board) -> None:
        added(board, "spam")
        worker = Worker(board, "clerk")

        @worker.handles()
        def handle(claim: ClaimHandle) -> None:
            claim.reject("not what we do")

        assert worker.run(once=True) == {"rejected": 1}
        assert board.get("spam").runs[0].reason == "not what we do"

    def test_what_failed_is_tried_again_as_often_as_it_may_be(self, board: Board) -> None:
        added(board, "flaky", retries=2)
        tries: list[int] = []
        worker = Worker(board, "coder", tell=(heard := Heard()))

        @worker.handles()
        def handle(claim: ClaimHandle) -> None:
            tries.append(claim.token)
            if len(tries) < 3:
                raise RuntimeError("not yet")

        with running(worker):
            heard.until("done")
        assert (tries, worker.tally) == ([1, 2, 3], {"failed": 2, "done": 1})
        assert statuses(board) == {"flaky": "done"}


class TestTime:
    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(handler_loop, "GRACE_SECONDS", 0.5)

    def test_a_function_that_takes_too_long_is_left_behind_and_finds_its_claim_lost(self, board: Board) -> None:
        added(board, "slow", priority=9)
        added(board, "next")
        found: list[str] = []
        worker = Worker(board, "coder", tell=(heard := Heard()))

        @worker.handles(timeout_seconds=0.2)
        def handle(claim: ClaimHandle) -> None:
            if claim.item.id == "slow":
                assert claim.lost.wait(PATIENCE_SECONDS)
                with pytest.raises(Exception, match=r"timed out after 0\.2s"):
                    claim.check()
                with pytest.raises(Exception, match="has already ended: failed"):
                    claim.done("too late")
                found.append("lost")

        assert Ran(worker, once=True).join() == {"timed_out": 1, "done": 1}
        until(lambda: found == ["lost"])
        assert heard.of("timed_out") == ["slow"]
        run = board.get("slow").runs[0]
        assert (run.outcome, run.reason) == ("failed", "timed out after 0.2s")

    def test_a_coroutine_that_takes_too_long_is_cancelled(self, board: Board) -> None:
        added(board, "slow")
        ended: list[str] = []
        worker = Worker(board, "coder")

        @worker.handles(timeout_seconds=0.2)
        async def handle(claim: ClaimHandle) -> None:
            try:
                await asyncio.sleep(PATIENCE_SECONDS)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        with running(worker):
            until(lambda: ended == ["cancelled"])  # by its time, and not because everybody leaves
        assert worker.tally == {"timed_out": 1}
        assert statuses(board) == {"slow": "failed"}

    def test_a_lost_claim_ends_the_work_and_not_the_worker(self, board: Board) -> None:
        added(board, "taken", priority=9)
        worker = Worker(board, "coder", ttl_seconds=1, tell=(heard := Heard()))

        @worker.handles()
        async def handle(claim: ClaimHandle) -> None:
            if claim.item.id == "taken" and claim.token == 1:
                board.force_release("taken", reason="mine", actor="boss")
                board.claim("taken", session=board.start_session("boss").id)
                await asyncio.sleep(PATIENCE_SECONDS)

        with running(worker):
            heard.until("lost")
            added(board, "next")
            heard.until("done")
        assert (heard.of("lost"), heard.of("done")) == (["taken"], ["next"])
        assert statuses(board)["taken"] == "in_progress"

    def test_what_was_taken_away_before_the_work_began_is_not_begun(self, harness: Harness, board: Board) -> None:
        added(board, "x")
        actor = harness.actor()
        actor.play("tests.sdk.workers:frozen_before_it_begins")
        actor.await_stop()
        board.force_release("x", reason="mine", actor="boss")
        boss = board.start_session("boss").id
        board.claim("x", session=boss)
        time.sleep(handler_loop.FRESH_SECONDS)  # what is waited for is that it stood still for so long
        actor.resume()
        assert actor.result() == {"lost": 1}
        assert board.done("x", session=boss).item.status == "done"


class TestLanes:
    def test_each_handler_gets_its_types_and_no_more_at_a_time_than_it_may(self, board: Board) -> None:
        for number in range(6):
            added(board, f"bug-{number}", type="bug")
            added(board, f"doc-{number}", type="docs")
        added(board, "other", type="feature")
        inside, most = {"bug": 0, "docs": 0}, {"bug": 0, "docs": 0}
        lock, full = threading.Lock(), threading.Event()
        worker = Worker(board, "coder")

        def handle(claim: ClaimHandle) -> None:
            type = claim.item.type
            with lock:
                inside[type] += 1
                most[type] = max(most[type], inside[type])
                if most == {"bug": 3, "docs": 1}:
                    full.set()
            assert full.wait(PATIENCE_SECONDS)
            with lock:
                inside[type] -= 1

        worker.handles("bug", max_claims=3)(handle)
        worker.handles("docs")(handle)
        assert worker.run(once=True) == {"done": 12}
        assert most == {"bug": 3, "docs": 1}
        assert statuses(board)["other"] == "ready"

    def test_a_worker_without_a_handler_or_without_room_is_refused(self, board: Board) -> None:
        worker = Worker(board, "coder")
        with pytest.raises(Invalid, match="needs a handler"):
            worker.run()
        with pytest.raises(Invalid, match="at least 1"):
            worker.handles(max_claims=0)

    def test_an_agent_that_holds_all_it_may_goes_on_when_one_has_ended(self, board: Board) -> None:
        board.set_agent("coder", max_claims=1)
        added(board, *(f"x{number}" for number in range(8)))
        worker = Worker(board, "coder")
        worker.handles(max_claims=4)(lambda claim: None)
        began = time.monotonic()
        assert worker.run(once=True) == {"done": 8}
        assert time.monotonic() - began < PATIENCE_SECONDS / 2, "not until a claim would have expired"

    def test_a_rate_is_kept_to_and_waited_for(self, board: Board) -> None:
        board.set_agent("coder", claims_per_minute=300, claims_burst=1)
        added(board, *(f"x{number}" for number in range(4)))
        worker = Worker(board, "coder")
        worker.handles(max_claims=4)(lambda claim: None)
        began = time.monotonic()
        assert worker.run(once=True) == {"done": 4}
        assert time.monotonic() - began >= 3 * 60 / 300 - 0.05

    def test_a_worker_can_run_again(self, board: Board) -> None:
        worker = Worker(board, "coder")

        @worker.handles()
        async def handle(claim: ClaimHandle) -> None: ...

        for number in range(3):
            added(board, f"x{number}")
            worker.run(once=True)
        assert set(statuses(board).values()) == {"done"}
        assert len(board.sessions(ended=True)) == 3


class TestWaiting:
    def test_new_work_wakes_it(self, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
        """It does not find it by looking now and then."""
        for name in (
            "worker.worker.WAIT_SECONDS",
            "store.sqlite.bell.LOST_RING_SECONDS",
            "board.base.OWNER_LOOK_SECONDS",
        ):
            monkeypatch.setattr(f"dibs.{name}", 10 * PATIENCE_SECONDS)
        waits, wait = threading.Event(), BellWatch.wait

        def noted(watch: BellWatch, timeout_seconds: float) -> bool:
            waits.set()
            return wait(watch, timeout_seconds)

        monkeypatch.setattr(BellWatch, "wait", noted)
        worker = Worker(board, "coder", tell=(heard := Heard()))
        worker.handles()(lambda claim: None)
        with running(worker):
            assert waits.wait(PATIENCE_SECONDS)
            began = time.monotonic()
            added(board, "x")
            heard.until("done")
            assert time.monotonic() - began < WAIT_SECONDS / 2, "it was woken, and did not wait for its time"

    def test_with_an_interval_it_looks_that_often_instead(self, board: Board) -> None:
        worker = Worker(board, "coder", tell=(heard := Heard()))
        worker.handles()(lambda claim: None)
        with running(worker, interval_seconds=0.2):
            for number in range(3):
                added(board, f"x{number}")
                heard.until("done", times=number + 1)

    def test_once_takes_what_is_there_and_leaves(self, board: Board) -> None:
        added(board, "a", "b")
        worker = Worker(board, "coder")
        worker.handles()(lambda claim: None)
        assert worker.run(once=True) == {"done": 2}
        (view,) = board.sessions(ended=True)
        assert (view.session.end_reason, view.session.owner and view.session.owner.pid) == (
            "the worker stopped",
            os.getpid(),
        )

    def test_once_is_over_when_there_is_nothing_more(self, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dibs.worker.worker.TICK_SECONDS", 10 * PATIENCE_SECONDS)
        added(board, "a")
        worker = Worker(board, "coder")
        worker.handles()(lambda claim: None)
        assert Ran(worker, once=True).join() == {"done": 1}

    def test_once_gives_what_it_took_all_the_time_it_needs(self, board: Board) -> None:
        added(board, "long")
        worker = Worker(board, "coder", drain_seconds=0)
        worker.handles(max_claims=2)(lambda claim: "lost" if claim.lost.wait(1) else "finished")
        assert worker.run(once=True) == {"done": 1}
        assert board.get("long").runs[0].reason == "finished"

    def test_a_session_that_an_admin_ended_is_replaced(self, board: Board) -> None:
        worker = Worker(board, "coder", tell=(heard := Heard()))
        worker.handles()(lambda claim: None)
        with running(worker):
            added(board, "a")
            heard.until("done")
            (view,) = board.sessions()
            board.end_session(view.session.id, reason="by an admin")
            added(board, "b")
            heard.until("done", times=2)
            (other,) = board.sessions()
        assert other.session.id != view.session.id
        assert board.get("b").runs[0].session == other.session.id

    def test_nobody_asks_any_more_when_it_has_stopped(self, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
        """The end of its session wakes a lane that waits: the lane does not have to find out by looking."""
        monkeypatch.setattr("dibs.store.sqlite.bell.LOST_RING_SECONDS", 10 * PATIENCE_SECONDS)
        monkeypatch.setattr("dibs.board.base.OWNER_LOOK_SECONDS", 10 * PATIENCE_SECONDS)
        monkeypatch.setattr("dibs.worker.worker.LAST_ASKING_SECONDS", PATIENCE_SECONDS / 2)
        waits, wait = threading.Event(), BellWatch.wait

        def noted(watch: BellWatch, timeout_seconds: float) -> bool:
            waits.set()
            return wait(watch, timeout_seconds)

        monkeypatch.setattr(BellWatch, "wait", noted)
        worker = Worker(board, "coder")
        worker.handles("patient")(lambda claim: None)
        with running(worker):
            assert waits.wait(PATIENCE_SECONDS)
        assert [one.name for one in threading.enumerate() if one.name == "dibs handler patient"] == []

    def test_what_no_waiting_helps_against_is_raised(self, board: Board) -> None:
        worker = Worker(board, "coder", tell=(heard := Heard()))
        worker.handles("no such\ntype")(lambda claim: None)
        with pytest.raises(Invalid):
            Ran(worker).join()
        assert len(heard.of("refused")) == 1

    def test_a_hook_that_breaks_breaks_nothing_else(self, board: Board, capfd: pytest.CaptureFixture[str]) -> None:
        added(board, "a", "b")

        def tell(word: str, claim: ClaimHandle | None, text: str) -> None:
            raise OSError("the disk is full")

        worker = Worker(board, "coder", tell=tell)
        worker.handles()(lambda claim: None)
        assert worker.run(once=True) == {"done": 2}
        assert "the disk is full" in capfd.readouterr().err

    def test_a_log_is_told_what_happens(self, board: Board, folder: Path) -> None:
        added(board, "good", priority=9)
        added(board, "bad")
        worker = Worker(board, "coder", log=folder / "agent-coder.log")

        @worker.handles()
        def handle(claim: ClaimHandle) -> None:
            if claim.item.id == "bad":
                raise ValueError("on\ntwo lines")

        worker.run(once=True)
        lines = (folder / "agent-coder.log").read_text().splitlines()
        said = [line.split(" ", 1)[1] for line in lines]
        assert said[:3] == ["coder claimed good", "coder done good", "coder claimed bad"]
        assert said[3].startswith("coder failed bad ValueError: on two lines (test_worker.py, line")
        assert len(said) == 4


class Flaky:
    """A store that is away when told to."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.away, self.asked = inner, False, 0
        self.error: Exception = StoreUnavailable("the store is away")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.away:
                self.asked += 1
                raise self.error
            return found(*args, **kwargs)

        return call


class TestStoreAway:
    @pytest.fixture
    def flaky(self, board: Board) -> Iterator[Flaky]:
        board.store = flaky = Flaky(board.store)  # type: ignore[assignment]
        yield flaky
        flaky.away = False

    def test_it_goes_on_when_the_store_is_back(self, harness: Harness, board: Board, flaky: Flaky) -> None:
        others = harness.board()
        worker = Worker(board, "coder", tell=(heard := Heard()))
        worker.handles()(lambda claim: None)
        with running(worker, interval_seconds=0.05):
            added(others, "a")
            heard.until("done")
            flaky.away = True
            heard.until("waiting", times=3)
            added(others, "b")
            flaky.away = False
            heard.until("done", times=2)
        assert heard.of("waiting")[0] == "the store is away"

    def test_once_says_that_it_could_not_look(
        self, board: Board, flaky: Flaky, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dibs.sdk.session.PATIENCE_SECONDS", 0.3)
        worker = Worker(board, "coder")
        worker.handles()(lambda claim: None)
        flaky.away = True
        with pytest.raises(StoreUnavailable):
            Ran(worker, once=True).join()

    def test_a_store_that_cannot_be_used_ends_it(self, board: Board, flaky: Flaky) -> None:
        worker = Worker(board, "coder")
        worker.handles()(lambda claim: None)
        flaky.away, flaky.error = True, StoreUnusable("the file is damaged")
        with pytest.raises(StoreUnusable):
            Ran(worker).join()

    def test_what_was_done_and_could_not_be_said_has_not_failed(
        self, harness: Harness, board: Board, flaky: Flaky, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dibs.sdk.session.PATIENCE_SECONDS", 0.3)
        others = harness.board()
        added(board, "x")
        worker = Worker(board, "coder", ttl_seconds=0.5, tell=(heard := Heard()))

        @worker.handles()
        def handle(claim: ClaimHandle) -> None:
            flaky.away = claim.token == 1

        with running(worker):
            heard.until("lost")
            flaky.away = False
            heard.until("done")
        assert heard.of("failed") == []
        assert others.runs()[0].outcome == "done"
        assert statuses(others) == {"x": "done"}

    def test_a_crowd_does_not_come_back_at_once(self, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
        worker = Worker(board, "coder")
        paused: list[float] = []
        monkeypatch.setattr(worker, "pause", paused.append)
        loop = handler_loop.HandlerLoop(worker, lambda claim: None, (), 1, None)
        for refusals in [*range(1, 12), 2000]:
            for _ in range(20):
                loop._pause_after(StoreUnavailable("away"), refusals)
        firsts, lasts = paused[:20], paused[-20:]
        assert len(set(lasts)) > 5, "drawn"
        assert max(firsts) <= 2 * handler_loop.PAUSE_SECONDS
        assert all(handler_loop.PAUSE_SECONDS_MAX / 2 <= pause <= handler_loop.PAUSE_SECONDS_MAX for pause in lasts)

    def test_what_is_over_its_time_does_not_wait_for_another_to_be_ended(
        self, board: Board, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        together, failed = threading.Barrier(2), board.fail

        def fail(*args: Any, **asked: Any) -> Any:
            together.wait(PATIENCE_SECONDS)
            return failed(*args, **asked)

        monkeypatch.setattr(board, "fail", fail)
        added(board, "a", "b")
        worker = Worker(board, "coder")
        worker.handles(max_claims=2, timeout_seconds=0.1)(lambda claim: claim.lost.wait(PATIENCE_SECONDS))
        assert Ran(worker, once=True).join() == {"timed_out": 2}


class TestSignals:
    """Real processes: a signal is told to one, and the record says what became of its item."""

    def test_sigterm_lets_it_finish_what_it_has_begun(self, harness: Harness, board: Board) -> None:
        added(board, "begun", priority=9)
        added(board, "later")
        actor = harness.actor()
        actor.play("tests.sdk.workers:working", how="until the signal")
        actor.read("begun")
        os.kill(actor.pid, signal.SIGTERM)
        assert actor.read_past("told", "result")["result"] == {"done": 1}
        assert statuses(board) == {"begun": "done", "later": "ready"}
        assert board.sessions() == ()

    def test_what_does_not_finish_in_time_is_released(self, harness: Harness, board: Board) -> None:
        added(board, "begun")
        actor = harness.actor()
        actor.play("tests.sdk.workers:working", how="until released", drain_seconds=0.3)
        actor.read("begun")
        os.kill(actor.pid, signal.SIGTERM)
        assert actor.read_past("told", "result")["result"] == {"released": 1}
        item, (run,) = board.get("begun").item, board.get("begun").runs
        assert (item.status, item.strikes, run.outcome) == ("ready", 0, "released")
        assert run.reason == "the worker stopped before it was finished"

    def test_a_second_signal_is_not_waited_with(self, harness: Harness, board: Board) -> None:
        added(board, "begun")
        actor = harness.actor()
        actor.play("tests.sdk.workers:working", how="until released")
        actor.read("begun")
        began = time.monotonic()
        os.kill(actor.pid, signal.SIGINT)
        time.sleep(0.2)  # two signals at once would be taken for one
        os.kill(actor.pid, signal.SIGINT)
        assert actor.read_past("told", "result")["result"] == {"interrupted": 1}
        assert time.monotonic() - began < 10
        assert (statuses(board), board.get("begun").item.strikes) == ({"begun": "ready"}, 0)

    def test_a_killed_worker_s_item_is_done_by_another(self, harness: Harness, board: Board) -> None:
        added(board, "begun")
        actor = harness.actor()
        actor.play("tests.sdk.workers:working", how="for ever")
        actor.read("begun")
        actor.kill()
        worker = Worker(board, "coder")
        worker.handles()(lambda claim: None)
        assert worker.run(once=True) == {"done": 1}
        assert [run.outcome for run in board.runs(item="begun")] == ["done", "owner_died"]

    def test_an_item_that_kills_its_workers_ends_as_failed(self, harness: Harness, board: Board) -> None:
        added(board, "poison", priority=9)
        added(board, "good")
        deaths = 0
        while statuses(board)["poison"] != "failed" and deaths < 10:
            actor = harness.actor()
            actor.play("tests.sdk.workers:working", how="killed")
            assert actor.read("begun")["begun"] == "poison"
            actor.process.wait()
            board.sweep()
            deaths += 1
        assert deaths == board.settings.max_strikes
        worker = Worker(board, "coder")
        worker.handles()(lambda claim: None)
        assert worker.run(once=True) == {"done": 1}
        assert statuses(board) == {"poison": "failed", "good": "done"}
