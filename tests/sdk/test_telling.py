"""What a session tells of what it holds, and what it asks again: nothing is forgotten that is being given, nothing is
done twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from dibs.board import Board
from dibs.errors import StoreUnavailable
from dibs.model import Heartbeat
from dibs.sdk import heartbeat
from dibs.sdk import session as sessions
from dibs.testing.conformance.asking import added, kinds, refused
from dibs.testing.invariants import assert_sound
from tests.kit.waiting import until
from tests.sdk.conftest import Stage, told

THREADS, EACH = 6, 12
AWAY = StoreUnavailable("away", retry_after_seconds=0)


class Flawed(Board):
    """A board whose calls go wrong as told: `flaws` maps a verb to what is done around its call."""

    def __init__(self, board: Board) -> None:
        super().__init__(board.store, board.settings, actor=board.actor)
        self.flaws: dict[str, Callable[[Callable[[], Any]], Any]] = {}
        self.asked: list[tuple[str, str | None]] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("claim", "next", "done", "recover", "heartbeat"):
            return found

        def does(*args: Any, **kwargs: Any) -> Any:
            self.asked.append((name, kwargs.get("request_id")))
            flaw = self.flaws.get(name)
            return found(*args, **kwargs) if flaw is None else flaw(lambda: found(*args, **kwargs))

        return does


def times(count: int, *, done: bool) -> Callable[[Callable[[], Any]], Any]:
    """So many times nobody hears an answer: after it was `done`, or before."""
    left = [count]

    def flaw(does: Callable[[], Any]) -> Any:
        if left[0] == 0:
            return does()
        left[0] -= 1
        if done:
            does()
        raise AWAY

    return flaw


def test_a_claim_that_is_just_being_given_is_not_taken_for_forgotten(stage: Stage) -> None:
    """Threads ask without a pause, the heart beats without one, and each beat tells what is held."""
    board = stage.far()
    total = THREADS * EACH
    added(board, *(f"item-{n:03}" for n in range(total)))
    told_of = 0
    forgotten: list[str] = []
    seen = board.heartbeat

    def beat(*, session: str, holding: Any = None, **asked: Any) -> Heartbeat:
        nonlocal told_of
        answer = seen(session=session, holding=holding, **asked)
        told_of += holding is not None
        forgotten.extend(answer.forgotten)
        return answer.replace(heartbeat_seconds=0.0)

    board.heartbeat = beat  # type: ignore[method-assign]
    wrong: list[BaseException] = []
    with board.session("coder") as me:

        def work() -> None:
            try:
                for _ in range(EACH):
                    claim = me.next()
                    assert claim is not None
                    claim.check()
                    claim.done()
            except BaseException as error:
                wrong.append(error)

        me._keeper.heartbeat.beat_within(0)
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        end = time.monotonic() + 30
        while told_of < 3 and time.monotonic() < end:
            time.sleep(0.01)  # bounded: heartbeats go on by themselves
    assert not wrong, wrong[0]
    assert not forgotten
    assert told_of >= 3, "it was never told what is held"
    assert {item.status for item in stage.board.list(limit=1000)} == {"done"}
    assert all(item.token == 1 for item in stage.board.list(limit=1000))


def test_a_claim_whose_answer_was_lost_is_let_go(near_stage: Stage) -> None:
    board = Flawed(near_stage.board)
    added(board, "x")
    board.flaws["next"] = times(1000, done=True)
    with board.session("coder") as me:
        refused(StoreUnavailable, me.next, patience_seconds=0)
        assert near_stage.board.get("x").item.status == "in_progress"
        assert me.claims == ()
        me._keeper.heartbeat.beat_within(0)
        end = time.monotonic() + 30
        while near_stage.board.get("x").claim is not None and time.monotonic() < end:
            time.sleep(0.01)  # bounded: the heartbeat goes on by itself
        assert "forgotten" in kinds(near_stage.board, "x")
        board.flaws.clear()
        assert me.next() is not None


def test_a_claim_whose_answer_was_lost_is_found_again_and_not_doubled(stage: Stage) -> None:
    board = Flawed(stage.far())
    added(board, "x", "y")
    board.flaws["next"] = times(2, done=True)
    with board.session("coder") as me:
        claim = me.next()
        assert claim is not None
        assert len({id for verb, id in board.asked if verb == "next"}) == 1
        claim.done()
    assert sorted(item.attempts for item in stage.board.list(limit=10)) == [0, 1]


@pytest.mark.parametrize("done", [True, False], ids=["answer lost", "not done"])
def test_an_end_is_asked_again_under_its_own_id_and_done_one_time(stage: Stage, done: bool) -> None:
    board = Flawed(stage.far())
    added(board, "x")
    board.flaws["done"] = times(3, done=done)
    with board.session("coder") as me, me.claim("x"):
        pass
    asked = [id for verb, id in board.asked if verb == "done"]
    assert len(asked) == 4
    assert len(set(asked)) == 1
    assert kinds(stage.board, "x").count("done") == 1
    assert [run.outcome for run in stage.board.get("x").runs] == ["done"]


def test_a_recovery_whose_answer_was_lost_is_found_again(stage: Stage) -> None:
    board = Flawed(stage.far())
    added(board, "x")
    board.flaws["recover"] = times(2, done=True)
    with board.session("coder") as me:
        claim = me.claim("x")
        stage.harness.clock.advance(7200)
        claim.done()
        assert claim.token == 2
    assert [run.outcome for run in stage.board.get("x").runs] == ["done", "expired"]


def test_an_end_that_nobody_heard_in_time_is_raised_and_can_be_asked_again(
    near_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PATIENCE_SECONDS", 0.2)
    board = Flawed(near_stage.board)
    added(board, "x")
    board.flaws["done"] = times(1000, done=False)
    with board.session("coder", ttl_seconds=1) as me:
        claim = me.claim("x")
        refused(StoreUnavailable, claim.done)
        assert claim.outcome is None
        board.flaws.clear()
        claim.done()
    assert board.get("x").runs[0].outcome == "done"


def test_a_store_that_is_away_while_a_program_ends_is_waited_for(far_stage: Stage) -> None:
    holder = far_stage.holder("x", ttl_seconds=30)
    far_stage.line.cut()
    holder.send("end")
    end = time.monotonic() + 30
    while not far_stage.line.broken and time.monotonic() < end:
        time.sleep(0.01)  # bounded: the call is on its way
    far_stage.line.mend()
    assert holder.read("did")["did"] is None
    assert told(holder, "look")["outcome"] == "done"
    assert kinds(far_stage.board, "x").count("done") == 1
    holder.send("leave")
    assert holder.result() == "left"
    assert_sound(far_stage.board)


def test_a_slow_telling_is_waited_for(near_stage: Stage) -> None:
    """What it says was true when it began: nothing may be given before it has arrived."""
    board = Flawed(near_stage.board)
    added(board, "x")

    def slow(does: Callable[[], Any]) -> Any:
        time.sleep(1.5 * heartbeat.REPORT_SECONDS)  # what is tested is that time passes
        return does()

    with board.session("coder") as me:
        with me._keeper.gate.requesting():
            me._keeper.heartbeat.beat_within(0)
            until(lambda: me._keeper.gate._report_is_due)
        board.flaws["heartbeat"] = slow
        claim = me.next()
        assert claim is not None
        board.flaws.clear()
        me._keeper.heartbeat.beat_within(0)
        until(lambda: len([verb for verb, _ in board.asked if verb == "heartbeat"]) >= 3)
        assert "forgotten" not in kinds(near_stage.board, "x")
        claim.done()


def test_a_claim_that_needs_it_sooner_is_renewed_in_time(near_stage: Stage) -> None:
    """A heartbeat that began before the claim was given knows nothing of it, and says that the next has time."""
    board = Flawed(near_stage.board)
    added(board, "x")
    under_way, go_on = threading.Event(), threading.Event()

    def slow(does: Callable[[], Any]) -> Any:
        answer = does()
        under_way.set()
        assert go_on.wait(30)
        return answer

    board.flaws["heartbeat"] = slow
    with board.session("coder") as me:
        with me._keeper.gate.requesting():  # as if something were being asked for: what is held is not told
            me._keeper.heartbeat.beat_within(0)
            assert under_way.wait(30)
        claim = me.claim("x", ttl_seconds=2)
        go_on.set()
        board.flaws.clear()
        assert not claim.lost.wait(4), "it was given up instead of renewed"
        now = near_stage.board.get("x").claim
        assert now is not None
        assert now.token == 1


def test_what_arrives_too_late_is_not_counted_from_its_arrival(near_stage: Stage) -> None:
    """The answer took so long that the claim is over by then."""
    board = Flawed(near_stage.board)
    added(board, "x")

    def late(does: Callable[[], Any]) -> Any:
        answer = does()
        near_stage.harness.clock.advance(7200)
        time.sleep(sessions.WAITED_SECONDS + 0.1)  # what is tested is that time has passed
        return answer

    board.flaws["next"] = late
    with board.session("coder", ttl_seconds=1, recover=False) as me:
        claim = me.next()
        assert claim is not None
        assert claim.seconds_left == 0
        assert claim.lost.wait(30)
