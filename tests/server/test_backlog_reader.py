"""Reading for those who are behind: once for all at one place, in an order that brings them together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from dibs.errors import StoreUnavailable
from dibs.model import Event
from dibs.server.streams.pages import BacklogReader, EncodedEvent, EventPage


class Reads:
    """The reads that were begun, in order; each ends when it is told to."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self._ends: list[asyncio.Future[EventPage | None]] = []
        self._next = asyncio.Event()

    def begin(self, cursor: int) -> asyncio.Future[EventPage | None]:
        self.begun.append(cursor)
        self._ends.append(asyncio.get_running_loop().create_future())
        self._next.set()
        return self._ends[-1]

    async def end(self, error: Exception | None = None) -> None:
        """End the read that is going on, once it is."""
        await self._next.wait()
        self._next.clear()
        if error is not None:
            self._ends[-1].set_exception(error)
        else:
            self._ends[-1].set_result(page_after(self.begun[-1]))


def page_after(cursor: int) -> EventPage:
    told = Event(id=cursor + 1, item="x", number=1, kind="added", at=0, status="ready", token=0, actor="a")
    return EventPage([EncodedEvent(told)])


async def asking(catching_up: BacklogReader, *cursors: int) -> list[asyncio.Task[EventPage | None]]:
    """Each of them has asked, in this order."""
    tasks = [asyncio.ensure_future(catching_up.page(cursor)) for cursor in cursors]
    await asyncio.sleep(0)
    return tasks


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 20))


def test_all_at_one_place_are_served_by_one_read() -> None:
    async def test() -> None:
        reads = Reads()
        asked = await asking(BacklogReader(reads.begin), 7, 7, 7)
        await reads.end()
        pages = [await one for one in asked]
        assert reads.begun == [7]
        assert pages[0] is not None
        assert pages[0] is pages[1] is pages[2]

    run(test())


def test_who_is_furthest_behind_and_who_has_waited_longest_take_turns() -> None:
    async def test() -> None:
        reads = Reads()
        asked = await asking(BacklogReader(reads.begin), 90, 50, 30, 20, 70)
        for _ in asked:
            await reads.end()
        await asyncio.gather(*asked)
        assert reads.begun == [20, 90, 30, 50, 70]

    run(test())


def test_one_who_asks_again_goes_on_from_there() -> None:
    async def test() -> None:
        reads = Reads()
        catching_up = BacklogReader(reads.begin)
        for cursor in (5, 5, 6):
            (asked,) = await asking(catching_up, cursor)
            await reads.end()
            await asked
        assert reads.begun == [5, 5, 6]

    run(test())


def test_a_refusal_is_told_to_all_who_asked_there_and_the_others_go_on() -> None:
    async def test() -> None:
        reads = Reads()
        refused, also, left, other = await asking(BacklogReader(reads.begin), 1, 1, 1, 2)
        left.cancel()
        await reads.end(StoreUnavailable("away"))
        for one in (refused, also):
            with pytest.raises(StoreUnavailable):
                await one
        await reads.end()
        assert await other is not None

    run(test())
