"""Verbs of many requests in one commit: the event loop hands them to the store, and the answers come back together.

A thread for each verb, which waits for the same commit, would cost two changes of threads a verb. Here it is two a
commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from dibs.board import Board
from dibs.config import Settings
from dibs.store.contract import SharedCommits

T = TypeVar("T")
R = TypeVar("R")


class SharedCalls:
    def __init__(self, commits: SharedCommits, settings: Settings) -> None:
        self._commits = commits
        self._board = Board(commits.store, settings, actor="dibs")
        #: Calls that have ended, with what they answered or raised, and whether the loop was told of them.
        self._ended: deque[tuple[asyncio.Future[Any], Any, Exception | None]] = deque()
        self._told = False

    async def run(self, work: Callable[[Board], T], then: Callable[[T], R]) -> R:
        """Run `work` in a commit that others share, and after it `then`, which delays no commit of another process."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()

        def end(result: Callable[[], T]) -> None:
            try:
                self._ended.append((future, then(result()), None))
            except Exception as error:
                self._ended.append((future, None, error))
            if not self._told:
                self._told = True
                with suppress(RuntimeError):  # the loop is closed: the server has stopped
                    loop.call_soon_threadsafe(self._answer_all)

        self._commits.call(lambda: work(self._board), end)
        return await future

    def _answer_all(self) -> None:
        # First of all: a call that ends from here on tells the loop again.
        self._told = False
        while self._ended:
            future, answer, error = self._ended.popleft()
            if future.cancelled():
                continue
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)
