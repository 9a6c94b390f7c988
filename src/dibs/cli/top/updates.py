"""Brings the state of the screen up to date: applies news as they come, and reads the board again where news are not
enough. News arrive in the thread of the feed, everything else happens in that of the screen."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from time import monotonic
from typing import TYPE_CHECKING

from dibs.cli.render import now_ms
from dibs.cli.top.feed import Away, Feed, Whole
from dibs.errors import DibsError
from dibs.model.dashboard import VitalChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    from dibs.board import Board
    from dibs.cli.top.feed import News
    from dibs.cli.top.state import BoardState
    from dibs.model.dashboard import View

#: How often the board is read again at most, when events were about items that the screen does not know.
REREAD_SECONDS = 10.0
#: A store that is read directly gives vitals every two seconds, unless a read hangs: some stores retry for longer.
SILENT_SECONDS = 5.0
SILENT = f"nothing was heard for {SILENT_SECONDS:g} s"


class Updates:
    """`changed` is called after news were applied, with the items that they were about; None: the whole board."""

    def __init__(
        self, app: App[None], board: Board, state: BoardState, view: View, changed: Callable[[set[str] | None], None]
    ) -> None:
        self._app, self._board, self._state, self._changed = app, board, state, changed
        self._feed = Feed(board, view, self._deliver)
        self._news: deque[News] = deque()
        self._is_draining = self._is_reading = self._reads_soon = False
        self._heard_at = monotonic()
        self.away: Away | None = None
        self.away_since: int | None = None

    def start(self) -> None:
        self._heard_at = monotonic()
        self._event_loop, self._own_context = asyncio.get_running_loop(), copy_context()
        self._feed.start()

    def stop(self) -> None:
        self._feed.stop()

    def _deliver(self, news: News) -> None:
        """Called in the thread of the feed."""
        self._heard_at = monotonic()
        self._news.append(news)
        if not self._is_draining:
            self._is_draining = True
            self._event_loop.call_soon_threadsafe(self._drain, context=self._own_context)

    def notice_silence(self) -> None:
        """Called every second. The stream of a server notices by itself that the server is silent."""
        if self.away is None and not self._board.store.waits and monotonic() - self._heard_at > SILENT_SECONDS:
            self._apply(Away(why=SILENT))

    def _drain(self) -> None:
        self._is_draining = False
        if self._is_reading:
            return
        news, was_away = [], self.away is not None
        while self._news:
            news.append(self._news.popleft())
            self._apply(news[-1])
        if not was_away and all(map(_is_quiet, news)):
            return
        is_whole = any(isinstance(one, Whole) for one in news)
        self._changed(None if is_whole else {getattr(one, "item", "") for one in news})

    def _apply(self, news: News) -> None:
        if isinstance(news, Away):
            self.away_since = now_ms() if self.away_since is None else self.away_since
            self.away = news
            self._state.stand()
            return
        if isinstance(news, Whole):
            self._state.replace(news.view)
            self._state.events.clear()
            self._state.remember(news.events)
        elif not self._state.apply(news):
            self._read_soon()
        self.away = self.away_since = None

    def _read_soon(self) -> None:
        if not self._reads_soon:
            self._reads_soon = True
            self._app.set_timer(REREAD_SECONDS, self._read)

    async def _read(self) -> None:
        """Know the board as a whole: an event was about an item that the screen does not know."""
        self._is_reading = True
        try:
            self._state.replace(await asyncio.to_thread(self._board.view))
        except DibsError:
            pass  # the feed finds out, too, and says so
        finally:
            self._is_reading = self._reads_soon = False
        self._drain()


def _is_quiet(news: News) -> bool:
    """Whether it only says that the board is there. Such vitals come every two seconds, and drawing takes longer."""
    return isinstance(news, VitalChange) and not any(
        (news.renewed, news.seen, news.queues, news.started, news.ended),
    )
