"""Whose work is next, and how much of one key's work runs at once."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import Future

from dibs.server.shares import IDLE_KEYS_MAX, SHARED_SECONDS, FairThreads, LoopTurns, Places, Turns, Users, halves
from tests.kit.waiting import PATIENCE_SECONDS

ONE = Places(total=1, per_key=1, alone=1)


def order(turns: Turns[str], costs: dict[str, float]) -> list[str]:
    """What waits, in the order in which it runs, one after the other; `costs` of each by key."""
    found = []
    while (taken := turns.take()) is not None:
        key, work = taken
        found.append(work)
        turns.end(key, costs.get(key, 1.0))
    return found


def running(turns: Turns[str]) -> Counter[str]:
    """How much of each key can run at once."""
    found: Counter[str] = Counter()
    while (taken := turns.take()) is not None:
        found[taken[0]] += 1
    return found


def waiting(places: Places, **counts: int) -> Turns[str]:
    turns: Turns[str] = Turns(places)
    for key, count in counts.items():
        for number in range(count):
            turns.put(key, f"{key}{number}")
    return turns


def test_work_of_one_key_runs_in_the_order_in_which_it_came() -> None:
    assert order(waiting(ONE, a=4), {}) == ["a0", "a1", "a2", "a3"]


def test_a_key_that_comes_late_does_not_wait_behind_all_of_another() -> None:
    assert order(waiting(ONE, a=5, b=2), {}) == ["a0", "b0", "a1", "b1", "a2", "a3", "a4"]


def test_what_costs_more_has_fewer_turns() -> None:
    assert order(waiting(ONE, a=4, b=4), {"a": 3.0}) == ["a0", "b0", "b1", "b2", "a1", "b3", "a2", "a3"]


def test_a_key_that_did_nothing_for_long_has_saved_nothing_up() -> None:
    turns = waiting(ONE, a=100)
    order(turns, {})
    for key in ("a", "b"):
        for number in range(3):
            turns.put(key, f"{key}{number}")
    assert order(turns, {}) == ["b0", "a0", "b1", "a1", "b2", "a2"]


def test_a_key_alone_has_all_places_but_one() -> None:
    assert running(waiting(halves(32), a=100)) == {"a": 31}
    assert running(waiting(halves(1), a=2)) == {"a": 1}


def test_a_key_has_half_of_the_places_while_another_waits() -> None:
    assert running(waiting(halves(32), a=100, b=100)) == {"a": 16, "b": 16}
    assert running(waiting(Places(total=4, per_key=1, alone=2), a=9, b=9, c=9)) == {"a": 1, "b": 1, "c": 1}


def test_a_key_has_half_of_the_places_while_others_ask_for_something_else() -> None:
    turns = waiting(halves(4), a=100)
    for _ in range(2):
        assert turns.take(is_shared=True) is not None
    assert turns.take(is_shared=True) is None
    assert turns.take() is not None, "alone, it has one more"


def test_a_server_has_several_users_while_requests_come_with_different_keys() -> None:
    users = Users()
    users.note("a", 0.0)
    assert not users.are_several(0.0)
    users.note("b", 3.0)
    assert users.are_several(3.0 + SHARED_SECONDS / 2)
    assert not users.are_several(3.0 + SHARED_SECONDS)
    users.note("a", 100.0)
    assert users.are_several(100.0)


def test_the_second_key_is_told_once_until_one_is_alone_again() -> None:
    users, told = Users(), list[float]()
    users.on_several = lambda: told.append(now)
    for now, key in ((0.0, "a"), (1.0, "b"), (1.1, "a"), (2.9, "b"), (20.0, "a")):
        users.note(key, now)
    assert told == [1.0, 20.0]


def test_the_first_work_of_another_key_finds_a_place() -> None:
    turns = waiting(halves(4), a=100)
    assert running(turns) == {"a": 3}
    turns.put("b", "b0")
    assert turns.take() == ("b", "b0")


def test_a_key_that_has_half_may_have_more_once_the_other_waits_no_longer() -> None:
    turns = waiting(halves(4), a=9, b=9)
    assert running(turns) == {"a": 2, "b": 2}
    turns.end("b", 1.0)
    turns.end("b", 1.0)
    assert running(turns) == {"b": 2}
    lone = waiting(halves(4), a=9, b=1)
    assert running(lone) == {"a": 3, "b": 1}


def test_work_that_finds_nothing_waiting_begins_at_once_and_counts() -> None:
    turns = waiting(halves(4))
    assert [turns.begin("a") for _ in range(4)] == [True, True, True, False]
    assert turns.begin("b")
    turns.end("a", 5.0)
    turns.put("a", "a0")
    turns.put("b", "b0")
    assert not turns.begin("c"), "others were first"
    assert turns.take() == ("b", "b0"), "it has used less"


def test_idle_keys_are_forgotten() -> None:
    turns: Turns[str] = Turns(ONE)
    for number in range(3 * IDLE_KEYS_MAX):
        turns.put(f"key-{number}", "work")
        order(turns, {f"key-{number}": float(number)})
    assert len(turns._used) <= IDLE_KEYS_MAX + 1


class Held:
    """Work that runs until it is let go, and is counted while it does."""

    def __init__(self, threads: FairThreads) -> None:
        self._threads = threads
        self._changed = threading.Condition()
        self._go = threading.Event()
        self.running: Counter[str] = Counter()

    def submit(self, key: str, count: int = 1) -> list[Future[None]]:
        return [self._threads.submit(key, lambda: self._work(key)) for _ in range(count)]

    def await_running(self, **counts: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.running == counts, PATIENCE_SECONDS), self.running

    def let_go(self) -> None:
        self._go.set()

    def _work(self, key: str) -> None:
        with self._changed:
            self.running[key] += 1
            self._changed.notify_all()
        assert self._go.wait(PATIENCE_SECONDS)
        with self._changed:
            self.running[key] -= 1
            self._changed.notify_all()


def test_threads_that_one_key_fills_serve_another_at_once() -> None:
    threads = FairThreads("t", halves(4))
    held = Held(threads)
    futures = held.submit("a", 20)
    held.await_running(a=3)
    futures += held.submit("b", 20)
    held.await_running(a=3, b=1)
    held.let_go()
    for future in futures:
        future.result(PATIENCE_SECONDS)
    threads.shutdown()


def test_an_error_is_that_of_its_work_and_the_others_go_on() -> None:
    threads = FairThreads("t", halves(1))
    failed, other = threads.submit("a", lambda: 1 // 0), threads.submit("a", lambda: 7)
    assert isinstance(failed.exception(PATIENCE_SECONDS), ZeroDivisionError)
    assert other.result(PATIENCE_SECONDS) == 7
    threads.shutdown()


def test_a_shutdown_waits_for_what_was_submitted() -> None:
    threads = FairThreads("t", halves(2))
    held = Held(threads)
    futures = held.submit("a", 6) + held.submit("b", 6)
    held.let_go()
    threads.shutdown()
    assert all(future.done() for future in futures)


def test_work_that_was_cancelled_does_not_run() -> None:
    threads = FairThreads("t", halves(1))
    held = Held(threads)
    held.submit("a")
    held.await_running(a=1)
    ran: list[int] = []
    future = threads.submit("a", lambda: ran.append(1))
    assert future.cancel()
    held.let_go()
    threads.shutdown()
    assert ran == []


def test_tasks_of_one_loop_take_turns_by_key() -> None:
    found: list[str] = []

    async def work(turns: LoopTurns, key: str) -> None:
        async with turns.turn(key):
            found.append(key)
            await asyncio.sleep(0)

    async def test() -> None:
        turns = LoopTurns(ONE)
        await asyncio.gather(*(work(turns, key) for key in "aaaab"))

    asyncio.run(test())
    assert found.index("b") == 1, found
    assert len(found) == 5


def test_a_task_that_was_cancelled_takes_no_turn_and_keeps_none() -> None:
    async def test() -> None:
        turns = LoopTurns(ONE)
        waits: list[asyncio.Task[None]] = []

        async def wait() -> None:
            async with turns.turn("a"):
                pass

        async with turns.turn("a"):
            waits = [asyncio.ensure_future(wait()) for _ in range(3)]
            await asyncio.sleep(0)
            waits[0].cancel()
            await asyncio.sleep(0)
        waits[1].cancel()  # its turn has come, but it has not run since
        await asyncio.wait(waits, timeout=PATIENCE_SECONDS)
        assert [one.cancelled() for one in waits] == [True, True, False]
        assert waits[2].done()

    asyncio.run(test())


def test_in_each_round_of_a_loop_a_few_begin_and_a_key_that_comes_late_is_among_the_next() -> None:
    begun: list[str] = []

    async def request(turns: LoopTurns, key: str) -> None:
        await turns.step(key)
        begun.append(key)

    async def test() -> None:
        turns = LoopTurns(halves(4))
        flood = [asyncio.ensure_future(request(turns, "a")) for _ in range(100)]
        await asyncio.sleep(0)
        late = asyncio.ensure_future(request(turns, "b"))
        await asyncio.wait([late], timeout=PATIENCE_SECONDS)
        await asyncio.gather(*flood)

    asyncio.run(test())
    assert begun.index("b") <= 2 * 4, begun[:20]
    assert begun.count("a") == 100
