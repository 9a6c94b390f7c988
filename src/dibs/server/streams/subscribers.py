"""Everybody who listens to live events: woken together, kept alive, cut off when they do not read.

A subscriber waits for nothing but its own signal, and has no timer: one beat for all of them looks who has heard
nothing for a while, and who takes nothing any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from dibs.errors import DibsError
from dibs.server.service import Service
from dibs.server.streams.backlog import CatchingUp
from dibs.server.streams.event_ring import Pages
from dibs.server.streams.projects import Projects

T = TypeVar("T")

#: The first news is told at once, further news together: many small pages would leave no time for verbs.
TOGETHER_SECONDS = 0.05
#: Who is behind reads in threads of its own, so that a crowd that comes back holds up no verb.
READING_THREADS = 2
#: So often within the shortest of the times that it looks after.
BEATS = 4


class Subscriber:
    """One that is told: what the beat needs to know of it, and how it is woken."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        #: It was told nothing for so long that it should hear that somebody is there.
        self.is_quiet = False
        self.refusal: DibsError | None = None
        self.gone = False
        self.told_at = self.now()
        #: Since when it has not taken what it is being sent.
        self.stalled_at: float | None = None
        self.cut: Callable[[], None] | None = None

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def refuse(self, refusal: DibsError) -> None:
        self.refusal = refusal
        self.woken.set()

    def leave(self) -> None:
        self.gone = True
        self.woken.set()


class Subscribers:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._all: set[Subscriber] = set()
        self._threads = ThreadPoolExecutor(READING_THREADS, "stream")
        self._options = service.streaming
        self._beat: asyncio.TimerHandle | None = None
        self._wake: asyncio.TimerHandle | None = None
        self._woken_at = 0.0
        self.feed, self.open_requests = service.feed, service.open_requests
        self.pages, self.projects = Pages(service.board), Projects(service.board)
        self.feed.heard += [self.pages.hear, self.projects.hear]
        self.feed.news.append(self.wake)
        self.catching_up = CatchingUp(lambda cursor: self._in_thread(lambda: self.pages.read(cursor)))

    @contextmanager
    def joined(self, one: Subscriber) -> Iterator[None]:
        self._all.add(one)
        self.pages.wanted += 1
        if self._beat is None:
            self._beat_later()
        try:
            yield
        finally:
            self._all.discard(one)
            self.pages.wanted -= 1

    async def read(self, work: Callable[[], T]) -> T:
        return await self._in_thread(work)

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    # In the event loop

    def wake(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._woken_at + TOGETHER_SECONDS - loop.time()
        if self.feed.stopping:
            self._wake_all()
            self._cut_stalled(0)
        elif left <= 0:
            self._wake_all()
        elif self._wake is None:
            self._wake = loop.call_later(left, self._wake_all)

    def _wake_all(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._woken_at = asyncio.get_running_loop().time()
        for one in self._all:
            one.woken.set()

    def _beat_later(self) -> None:
        seconds = min(self._options.keep_alive_seconds, self._options.stalled_seconds) / BEATS
        self._beat = asyncio.get_running_loop().call_later(seconds, self._look_after_all)

    def _look_after_all(self) -> None:
        self._beat = None
        if not self._all:
            return
        self._cut_stalled(self._options.stalled_seconds)
        quiet_since = asyncio.get_running_loop().time() - self._options.keep_alive_seconds
        for one in self._all:
            if one.told_at <= quiet_since and one.stalled_at is None:
                one.is_quiet = True
                one.woken.set()
        self._beat_later()

    def _cut_stalled(self, seconds: float) -> None:
        """What was written to it and not read is all that is lost; it can resume after the last that it read."""
        since = asyncio.get_running_loop().time() - seconds
        for one in tuple(self._all):
            if one.stalled_at is not None and one.stalled_at <= since and one.cut is not None:
                one.cut()
