"""Verbs of many requests in one commit: the event loop hands them to the store, and the answers come back together.

A thread for each verb, which waits for the same commit, would cost two changes of threads a verb. Here it is two a
commit. On a store that cannot share commits a thread calls each verb, and their answers still come back together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, TypeVar

from dibs.board import Board
from dibs.config import Settings
from dibs.store.contract import SharedCommits, Store

T = TypeVar("T")
R = TypeVar("R")
#: Is given the answer, or what was raised.
OnEnd = Callable[[Any, Exception | None], None]


class CommitEach(SharedCommits):
    """For a store that cannot share commits."""

    def __init__(self, store: Store, threads: Executor) -> None:
        self.store, self._threads = store, threads

    def call(self, work: Callable[[], Any], on_end: Callable[[Callable[[], Any]], None]) -> None:
        self._threads.submit(on_end, work)


class SharedCalls:
    def __init__(self, commits: SharedCommits, settings: Settings) -> None:
        self._commits = commits
        self._board = Board(commits.store, settings, actor="dibs")
        #: Calls that have ended, with what they answered or raised, and whether the loop was told of them.
        self._ended: deque[tuple[OnEnd, Any, Exception | None]] = deque()
        self._told = False

    async def run(self, work: Callable[[Board], T], then: Callable[[T], R]) -> R:
        """Run `work` in a commit that others share, and after it `then`, which delays no commit of another process."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def end(answer: Any, error: Exception | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

        self.start(work, then, end)
        return await future

    def start(self, work: Callable[[Board], T], then: Callable[[T], R], on_end: OnEnd) -> None:
        """`run` without a future: `on_end` is called in the event loop."""
        loop = asyncio.get_running_loop()

        def end(result: Callable[[], T]) -> None:
            try:
                self._ended.append((on_end, then(result()), None))
            except Exception as error:
                self._ended.append((on_end, None, error))
            if not self._told:
                self._told = True
                with suppress(RuntimeError):  # the loop is closed: the server has stopped
                    loop.call_soon_threadsafe(self._answer_all)

        self._commits.call(lambda: work(self._board), end)

    def _answer_all(self) -> None:
        # First of all: a call that ends from here on tells the loop again.
        self._told = False
        while self._ended:
            on_end, answer, error = self._ended.popleft()
            on_end(answer, error)
