"""What is new, once for everybody: one thread follows the board's feed for all streams and all who wait."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

from dibs.board import Board
from dibs.errors import DibsError, Invalid, StoreUnavailable
from dibs.model import Event
from dibs.store.contract import Watch

READ_EVENTS = 500
#: And so many characters, since a few events can be as large.
READ_BYTES = 1_000_000
#: A board that nobody touches is looked at this often: what its clock does rings no bell.
LOOK_SECONDS = 5.0
AWAY_SECONDS = 0.5
#: Who waits for what was freed here goes first, and what comes right after it is read together with it.
TOGETHER_SECONDS = 0.005


class Stopping(StoreUnavailable):
    """The server is going down; another, or the next one, goes on."""


class Left(StoreUnavailable):
    """Who asked is gone, and is given nothing. The status is told to nobody but the log."""

    http_status = 499


class Waiter:
    """Somebody who waits in a thread."""

    def __init__(self, still_may: Callable[[], object] = lambda: None) -> None:
        """`still_may` is called before anything is done for them, and raises if nothing may be done any more."""
        self.still_may = still_may
        #: Why nothing more is to be done for them, if so.
        self.over: DibsError | None = None


class Feed:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._changed = threading.Condition()
        self._round = 0
        self._stirred = False
        self.stopping = False
        self.newest = 0
        #: Called with a cursor and the events that come next after it, before anybody else learns of them, in the
        #: thread that follows.
        self.heard: list[Callable[[int, Sequence[Event]], None]] = []
        #: Called in the event loop after that.
        self.news: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._follow, name="feed", daemon=True)

    def start(self) -> None:
        """From an event loop, which is told of news from then on."""
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        latest = self._board.events(newest=True, limit=1)
        self.newest = latest[-1].id if latest else 0
        self._thread.start()

    @property
    def is_followed(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Everybody who waits is sent home."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()
        self._tell()

    def wait_for_stop(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.stopping, seconds)

    # For threads

    def watch(self, session: str | None = None) -> Watch:
        return SharedWatch(self, Waiter())

    def watch_of(self, waiter: Waiter) -> Callable[[str | None], Watch]:
        return lambda session: SharedWatch(self, waiter)

    def stir(self) -> None:
        """Wake who waits for something that this process has just freed; everybody is told when it is read here."""
        with self._changed:
            self._round += 1
            self._stirred = True
            self._changed.notify_all()

    def send_home(self, waiter: Waiter, why: DibsError) -> None:
        with self._changed:
            waiter.over = waiter.over or why
            self._changed.notify_all()

    def wait(self, seen: int, waiter: Waiter, timeout_seconds: float) -> int:
        """The round that is going on, once it is another than `seen` or the time is up."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._round != seen or self.stopping or waiter.over is not None, timeout_seconds
            )
            if waiter.over is not None:
                raise waiter.over
            if self.stopping:
                raise Stopping("the server is stopping; ask again", retry_after_seconds=1)
            return self._round

    # For the event loop

    async def changed(self, timeout_seconds: float) -> bool:
        """Whether there was news within this time."""
        assert self._told is not None
        try:
            await asyncio.wait_for(self._told.wait(), timeout_seconds)
        except TimeoutError:
            return False
        return True

    def _follow(self) -> None:
        watch: Watch | None = None
        while not self.stopping:
            try:
                if watch is None:
                    watch = self._board.store.watch()
                self._take_in()
                watch.wait(LOOK_SECONDS)
                if self._stirred:
                    self._stirred = False
                    self.wait_for_stop(TOGETHER_SECONDS)
            except Exception as error:
                # The store is away; whoever asks is told so by the store itself. Anything else is for the log.
                if not isinstance(error, DibsError):
                    logging.exception("the feed could not be followed, and is tried again")
                _close(watch)
                watch = None
                self.wait_for_stop(AWAY_SECONDS)
        _close(watch)

    def _take_in(self) -> None:
        while not self.stopping:
            after = self.newest
            try:
                events = self._board.events(after=after, limit=READ_EVENTS, bytes_max=READ_BYTES)
            except Invalid as pruned:
                # What came meanwhile was pruned before it was read: nothing of it can be had any more.
                self.newest = max(after + 1, int(pruned.facts.get("event_floor", 0)))
                continue
            if events:
                for hear in self.heard:
                    hear(after, events)
            with self._changed:
                if events:
                    self.newest = events[-1].id
                self._round += 1
                self._changed.notify_all()
            self._tell()
            if len(events) < READ_EVENTS and not events.more:
                return

    def _tell(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell_loop)

    def _tell_loop(self) -> None:
        """Wake everybody, and have the next wait begin anew."""
        if self._told is not None:
            self._told.set()
            self._told = asyncio.Event()
        for call in self.news:
            call()


def _close(watch: Watch | None) -> None:
    if watch is not None:
        try:
            watch.close()
        except Exception:
            logging.exception("a watch could not be closed")


class SharedWatch(Watch):
    """Woken by the one thread that watches."""

    def __init__(self, feed: Feed, waiter: Waiter) -> None:
        self._feed, self._waiter = feed, waiter
        self._seen = feed._round

    def wait(self, timeout_seconds: float) -> bool:
        before, self._seen = self._seen, self._feed.wait(self._seen, self._waiter, timeout_seconds)
        self._waiter.still_may()
        return self._seen != before

    def close(self) -> None:
        pass
