"""Follows the board in a thread, reads it again after it was away or replaced, and hands over what it hears."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dibs.errors import DibsError
from dibs.sdk import live
from dibs.sdk.retries import delay_seconds
from dibs.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from dibs.board import Board
    from dibs.model import Event
    from dibs.model.dashboard import View, VitalChange
    from dibs.sdk.live import Live

    News: TypeAlias = "Event | VitalChange | Whole | Away"

EVENTS_SHOWN = 100
EVENTS_BYTES = 1_000_000
RETRY_SECONDS_MAX = 2.0
#: How long quitting waits for a read of the board: a server that hangs is not waited for.
JOIN_SECONDS = 1.0


class Away(Value):
    """The board cannot be read now."""

    why: str


class Whole(Value):
    """The board as it is now, and its latest events, oldest first. Nothing that was known before counts any more."""

    view: View
    events: Sequence[Event]


def read(board: Board) -> Whole:
    view = board.view()
    return Whole(view=view, events=board.events(newest=True, limit=EVENTS_SHOWN, bytes_max=EVENTS_BYTES))


class Feed:
    """`deliver` is called in the thread of the feed, with all of the board after each time that it was away."""

    def __init__(self, board: Board, view: View, deliver: Callable[[News], None]) -> None:
        self._board, self._view, self._deliver = board, view, deliver
        self._live: Live | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._live is not None:
            self._live.close()
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._follow()
        finally:
            # Also after an error that nobody expected: the screen must not go on to say that it is live.
            self._tell(Away(why="the board is not followed any more; start dibs top again"))

    def _follow(self) -> None:
        tries = 0
        try:
            self._live = live.follow(self._board, self._view)
            if self._ended.is_set():
                return
            for news in self._live:
                self._tell(news)
        except DibsError as error:
            self._tell(Away(why=error.message))
            while not self._ended.wait(delay_seconds(tries, RETRY_SECONDS_MAX)):
                tries += 1
                if self._read():
                    return

    def _read(self) -> bool:
        try:
            found = read(self._board)
        except DibsError as error:
            self._tell(Away(why=error.message))
            return False
        self._view = found.view
        self._tell(found)
        return True

    def _tell(self, news: News) -> None:
        if not self._ended.is_set():
            self._deliver(news)
