"""Verbs of many requests in one commit: the event loop hands them to the store, and the answers come back together.

A thread for each verb, which waits for the same commit, would cost two changes of threads a verb. Here it is two a
commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from dibs.board import Board
from dibs.config import Settings
from dibs.store.contract import SharedCommits

T = TypeVar("T")


class SharedCalls:
    def __init__(self, commits: SharedCommits, settings: Settings) -> None:
        self._commits = commits
        self._board = Board(commits.store, settings, actor="dibs")
        #: Calls that have ended, each with the function that gives its answer, and whether the loop was told of them.
        self._ended: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._told = False

    async def run(self, work: Callable[[Board], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def end(result: Callable[[], Any]) -> None:
            self._ended.append((future, result))
            if not self._told:
                self._told = True
                loop.call_soon_threadsafe(self._answer_all)

        self._commits.call(lambda: work(self._board), end)
        return await future

    def _answer_all(self) -> None:
        # First of all: a call that ends from here on tells the loop again.
        self._told = False
        while self._ended:
            future, result = self._ended.popleft()
            if future.cancelled():
                continue
            try:
                future.set_result(result())
            except Exception as error:
                future.set_exception(error)
