"""Waiting: `next` with patience is woken by what other processes do, and by time; it does not ask over and over."""

from __future__ import annotations

import time

from dibs.errors import AgentAtCapacity
from dibs.testing.conformance.asking import TTL_SECONDS, added, ids, refused, session
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.testing.actors import Actor

#: Far more than a wake-up takes, and well under how often a waiter looks for the dead: only a wake-up is that quick.
PROMPT_SECONDS = 3.0
PATIENCE_SECONDS = 20.0


def waiter(harness: Harness, wait_seconds: float = PATIENCE_SECONDS, **asked: object) -> Actor:
    """A process that waits with `next`, and is known to have begun to."""
    actor = harness.actor()
    actor.play("dibs.testing.scenes:wait_for_next", wait_seconds=wait_seconds, **asked)
    actor.read("waiting")
    return actor


class TestWaiting:
    def test_a_waiter_is_woken_by_an_add(self, harness: Harness) -> None:
        board = harness.board()
        actor = waiter(harness)
        added(board, "x")
        found = actor.result()
        assert found["items"] == ["x"]
        assert found["seconds"] < PROMPT_SECONDS

    def test_a_waiter_is_woken_by_a_release(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        me = session(board)
        board.claim("x", session=me)
        actor = waiter(harness)
        board.release("x", session=me)
        found = actor.result()
        assert found["items"] == ["x"]
        assert found["seconds"] < PROMPT_SECONDS

    def test_a_waiter_is_woken_by_every_other_way_back(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        for way in ("force_release", "retry", "end_session", "edit"):
            added(board, way, type="other" if way == "edit" else "task")
            mine = session(board)
            if way != "edit":
                board.claim(way, session=mine)
            if way == "retry":
                board.fail(way, session=mine)
            actor = waiter(harness, types=["task"])
            if way == "force_release":
                board.force_release(way, reason="needed")
            elif way == "retry":
                board.retry(way)
            elif way == "end_session":
                board.end_session(mine)
            else:
                board.edit(way, type="task")
            found = actor.result()
            assert found["items"] == [way]
            assert found["seconds"] < PROMPT_SECONDS, way
        board.end_session(me)

    def test_a_waiter_gets_what_expires_while_it_waits(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.claim("x", session=session(board, "ann"), ttl_seconds=TTL_SECONDS)
        harness.clock.advance(TTL_SECONDS - 1)
        found = waiter(harness).result()
        assert found["items"] == ["x"]
        assert found["seconds"] < PROMPT_SECONDS

    def test_a_waiter_gets_what_a_dead_owner_held(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        holder = harness.actor()
        theirs = holder.ask("start_session", "ann", owner_pid=holder.pid).reply["id"]
        holder.ask("claim", "x", session=theirs)
        actor = waiter(harness)
        holder.kill()
        # Nobody tells of a death; a waiter looks for it now and then.
        assert actor.result()["items"] == ["x"]

    def test_of_many_waiters_one_gets_the_item(self, harness: Harness) -> None:
        board = harness.board()
        waiters = [waiter(harness, wait_seconds=2.0) for _ in range(3)]
        added(board, "x")
        found = [actor.result()["items"] for actor in waiters]
        assert sorted(found) == [[], [], ["x"]]

    def test_when_the_time_is_up_there_is_nothing(self, harness: Harness) -> None:
        board = harness.board()
        me = session(board)
        begun = time.monotonic()
        assert board.next(session=me, wait_seconds=0.3) == ()
        assert time.monotonic() - begun >= 0.3

    def test_what_is_there_is_given_without_waiting(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        begun = time.monotonic()
        assert ids(board.next(session=session(board), wait_seconds=PATIENCE_SECONDS)) == ["x"]
        assert time.monotonic() - begun < PROMPT_SECONDS

    def test_a_full_session_does_not_wait(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "x")
        board.set_agent("coder", max_claims=1)
        me = session(board, "coder")
        board.next(session=me)
        begun = time.monotonic()
        refused(AgentAtCapacity, board.next, session=me, wait_seconds=PATIENCE_SECONDS)
        assert time.monotonic() - begun < PROMPT_SECONDS

    def test_a_waiter_does_not_ask_over_and_over(self, harness: Harness) -> None:
        harness.board()
        found = waiter(harness, wait_seconds=2.0).result()
        assert found["items"] == []
        assert found["looks"] <= 5, f"{found['looks']} looks in 2 s of a quiet board"

    def test_a_waiter_does_not_ask_over_and_over_about_what_it_cannot_have(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "other", type="other")
        added(board, "x")
        board.claim("x", session=session(board), ttl_seconds=TTL_SECONDS)
        harness.clock.advance(TTL_SECONDS - 1)
        found = waiter(harness, wait_seconds=2.0, types=["third"]).result()
        assert found["items"] == []
        assert found["looks"] <= 8, f"{found['looks']} looks in 2 s"

    def test_a_watch_says_whether_something_changed(self, harness: Harness) -> None:
        board = harness.board()
        watch = board.watch()
        assert watch.wait(0.05) is False
        harness.actor().ask("add", "something")
        assert watch.wait(PATIENCE_SECONDS) is True
        watch.close()

    def test_a_change_before_the_wait_is_not_missed(self, harness: Harness) -> None:
        board = harness.board()
        watch = board.watch()
        board.add("before the wait")
        assert watch.wait(PATIENCE_SECONDS) is True
        watch.close()
