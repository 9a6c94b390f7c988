"""Those who are behind what the ring holds read from the store, page by page, and one read serves all at one place.

A crowd that comes back after a restart would else read everything once for each of them. Every other read goes to the
one furthest behind: so they come together, and from then on go on together; the reads between go to whoever has waited
longest, so that nobody waits for a crowd. Who does not read its stream asks for nothing, and holds up nobody.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from dibs.server.streams.event_ring import Page


class CatchingUp:
    def __init__(self, read: Callable[[int], asyncio.Future[Page | None]]) -> None:
        """`read` begins to read the page after a cursor, in a thread."""
        self._read = read
        #: By cursor, the one that has waited longest first.
        self._asked: dict[int, asyncio.Future[Page | None]] = {}
        self._furthest_behind: list[int] = []
        self._reading: asyncio.Future[None] | None = None

    async def page(self, cursor: int) -> Page | None:
        answer = self._asked.get(cursor)
        if answer is None:
            answer = self._asked[cursor] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._furthest_behind, cursor)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read_all())
        return await asyncio.shield(answer)

    async def _read_all(self) -> None:
        furthest_behind = True
        while self._asked:
            cursor = self._lowest() if furthest_behind else next(iter(self._asked))
            furthest_behind = not furthest_behind
            read = self._read(cursor)
            await asyncio.wait([read])
            _pass_on(read, self._asked.pop(cursor))

    def _lowest(self) -> int:
        while True:
            cursor = heapq.heappop(self._furthest_behind)
            if cursor in self._asked:
                return cursor
            # Answered already, when it had waited longest.


def _pass_on(read: asyncio.Future[Page | None], answer: asyncio.Future[Page | None]) -> None:
    error = read.exception()
    if error is None:
        answer.set_result(read.result())
    else:
        answer.set_exception(error)
        answer.exception()  # looked at, though they may all have left meanwhile
