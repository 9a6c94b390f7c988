"""One key does not take from others what the server has: threads that read and write, and the writer of the store."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.config import DEFAULTS
from dibs.server.service import LONG_READ_THREADS, LONG_WORK, SMALL_READ_THREADS, VERB_THREADS, Service
from dibs.server.shared_calls import CALLS_AT_STORE
from dibs.server.shares import KEY
from tests.kit import sqlite
from tests.kit.waiting import PATIENCE_SECONDS

FLOOD = 100


class Held:
    """Calls that go on until they are let go, counted by the key that they are of."""

    def __init__(self) -> None:
        self.going = Counter[str]()
        self._changed = threading.Condition()
        self._is_over = threading.Event()

    def call(self, key: str) -> None:
        with self._changed:
            self.going[key] += 1
            self._changed.notify_all()
        assert self._is_over.wait(PATIENCE_SECONDS)

    def await_going(self, **counts: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.going == counts, PATIENCE_SECONDS), self.going

    def let_go(self) -> None:
        self._is_over.set()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with sqlite.harness(tmp_path) as harness:
        yield Service(harness.board().store, DEFAULTS, sweeps=False)


def ask(key: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
    """In a task of its own, as the request of a key."""

    async def request() -> Any:
        KEY.set(key)
        return await work()

    return asyncio.ensure_future(request())


def several_ask(service: Service) -> None:
    for key in ("neighbour", "viewer"):
        service.users.note(key, asyncio.get_running_loop().time())


async def in_thread(work: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 2 * PATIENCE_SECONDS))


@pytest.mark.parametrize(
    ("begin", "share"),
    [
        (lambda service, work: service.read(work), LONG_READ_THREADS // 2),
        (lambda service, work: service.run(work, is_long=True), LONG_WORK.per_key),
    ],
    ids=["long reads", "long verbs"],
)
def test_a_key_has_its_share_of_threads_while_another_uses_the_server(
    service: Service, begin: Callable[..., Coroutine[Any, Any, Any]], share: int
) -> None:
    held = Held()

    async def test() -> None:
        several_ask(service)
        mine = [ask("viewer", lambda: begin(service, lambda: held.call("viewer"))) for _ in range(FLOOD)]
        await in_thread(lambda: held.await_going(viewer=share))
        theirs = ask("neighbour", lambda: begin(service, lambda: held.call("neighbour")))
        await in_thread(lambda: held.await_going(viewer=share, neighbour=1))
        held.let_go()
        await asyncio.gather(*mine, theirs)
        assert held.going == {"viewer": FLOOD, "neighbour": 1}

    run(test())


@pytest.mark.parametrize(
    ("begin", "threads"),
    [
        (lambda service, work: service.read(work), LONG_READ_THREADS),
        (lambda service, work: service.read_one(work), SMALL_READ_THREADS),
        (lambda service, work: service.run(work), VERB_THREADS),
        (lambda service, work: service.run(work, is_long=True), LONG_WORK.total),
    ],
    ids=["long reads", "small reads", "verbs", "long verbs"],
)
def test_a_key_alone_has_all_threads_but_one_which_waits_for_the_next(
    service: Service, begin: Callable[..., Coroutine[Any, Any, Any]], threads: int
) -> None:
    held = Held()

    async def test() -> None:
        mine = [ask("viewer", lambda: begin(service, lambda: held.call("viewer"))) for _ in range(FLOOD)]
        await in_thread(lambda: held.await_going(viewer=threads - 1))
        theirs = ask("neighbour", lambda: begin(service, lambda: held.call("neighbour")))
        await in_thread(lambda: held.await_going(viewer=threads - 1, neighbour=1))
        held.let_go()
        await asyncio.gather(*mine, theirs)

    run(test())


def test_a_read_of_one_item_and_a_key_that_is_not_cached_wait_for_no_long_read(service: Service) -> None:
    held = Held()
    service.board.add("T", id="x")

    async def test() -> None:
        several_ask(service)
        long = [
            ask(key, lambda: service.read(lambda: held.call("long")))
            for key in ("viewer", "other", "third")
            for _ in range(FLOOD)
        ]
        await in_thread(lambda: held.await_going(long=LONG_READ_THREADS))
        found = await ask("neighbour", lambda: service.read_one(lambda: service.board.get("x")))
        assert found.item.id == "x"
        assert await service._ask_for_key(lambda: 7) == 7
        held.let_go()
        await asyncio.gather(*long)

    run(test())


def test_the_writer_serves_another_key_before_all_that_one_key_has_asked_for(service: Service) -> None:
    """The first call holds the writer until all have asked."""
    everyone_asked = threading.Event()
    ended: list[str] = []
    flood = 3 * CALLS_AT_STORE

    async def test() -> None:
        def start(key: str, work: Callable[[Any], Any], then: Callable[[], None]) -> None:
            def end(answer: Any, error: Exception | None) -> None:
                assert error is None
                ended.append(key)
                then()

            service.start_hot(key, work, lambda found: found, end)

        all_ended = asyncio.Event()

        def look() -> None:
            if len(ended) == flood + 2:
                all_ended.set()

        start("viewer", lambda board: everyone_asked.wait(PATIENCE_SECONDS), look)
        for _ in range(flood):
            start("viewer", lambda board: None, look)
        start("neighbour", lambda board: None, look)
        everyone_asked.set()
        await all_ended.wait()
        assert ended.index("neighbour") <= CALLS_AT_STORE

    run(test())
