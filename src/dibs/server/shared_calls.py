"""Verbs of many requests in one commit: the event loop hands them to the store, and the answers come back together.

A thread for each verb, which waits for the same commit, would cost two changes of threads a verb. Here it is two a
commit. On a store that cannot share commits a thread calls each verb, and their answers still come back together.

The store commits in the order in which it is handed verbs. So it is handed as many as two commits hold, and the next of
those that wait is that of the key which has used the least time of the writer.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from dibs.board import Board
from dibs.config import Settings
from dibs.server.shares import FairThreads, Turns, halves
from dibs.store.contract import Store

T = TypeVar("T")
R = TypeVar("R")
#: Is given the answer, or what was raised.
OnEnd = Callable[[Any, Exception | None], None]

#: Twice what one commit holds: while one is written, the next is complete.
CALLS_AT_STORE = 512


class Ended(NamedTuple):
    key: str
    seconds: float
    on_end: OnEnd
    answer: Any
    error: Exception | None


class SharedCalls:
    """Used in the event loop only."""

    def __init__(self, store: Store, settings: Settings, threads: FairThreads) -> None:
        """`threads` call the verbs if the store cannot share commits."""
        self._commits, self._threads = store.shared_commits(), threads
        self.board = Board(store if self._commits is None else self._commits.store, settings, actor="dibs")
        self._turns: Turns[Call] = Turns(halves(CALLS_AT_STORE))
        #: Calls that have ended, and whether the loop was told of them.
        self._ended: deque[Ended] = deque()
        self._told = False

    async def run(self, key: str, work: Callable[[Board], T], then: Callable[[T], R]) -> R:
        """Run `work` in a commit that others share, and after it `then`, which delays no commit of another process."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def end(answer: Any, error: Exception | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

        self.start(key, work, then, end)
        return await future

    def start(self, key: str, work: Callable[[Board], T], then: Callable[[T], R], on_end: OnEnd) -> None:
        """`run` without a future: `on_end` is called in the event loop."""
        call = Call(self, key, work, then, on_end)
        if self._commits is None:
            self._threads.start(key, lambda: call.end(call.work))
        elif self._turns.begin(key):
            self._commits.call(call.work, call.end)
        else:
            self._turns.put(key, call)
            self._hand_over()

    def tell(self, ended: Ended, loop: asyncio.AbstractEventLoop) -> None:
        """Called in any thread."""
        self._ended.append(ended)
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # the loop is closed: the server has stopped
                loop.call_soon_threadsafe(self._answer_all)

    def _hand_over(self) -> None:
        assert self._commits is not None
        while (found := self._turns.take()) is not None:
            self._commits.call(found[1].work, found[1].end)

    def _answer_all(self) -> None:
        # First of all: a call that ends from here on tells the loop again.
        self._told = False
        while self._ended:
            ended = self._ended.popleft()
            if self._commits is not None:
                self._turns.end(ended.key, ended.seconds)
            ended.on_end(ended.answer, ended.error)
        if self._commits is not None:
            self._hand_over()


class Call:
    """A verb on its way through the store."""

    __slots__ = ("_calls", "_key", "_loop", "_on_end", "_seconds", "_then", "_verb")

    def __init__(
        self, calls: SharedCalls, key: str, verb: Callable[[Board], Any], then: Callable[[Any], Any], on_end: OnEnd
    ) -> None:
        self._calls, self._key, self._verb, self._then, self._on_end = calls, key, verb, then, on_end
        self._loop = asyncio.get_running_loop()
        self._seconds = 0.0

    def work(self) -> Any:
        began = time.perf_counter()
        try:
            return self._verb(self._calls.board)
        finally:
            self._seconds = time.perf_counter() - began

    def end(self, result: Callable[[], Any]) -> None:
        answer, raised = None, None
        try:
            answer = self._then(result())
        except Exception as error:
            raised = error
        self._calls.tell(Ended(self._key, self._seconds, self._on_end, answer, raised), self._loop)
