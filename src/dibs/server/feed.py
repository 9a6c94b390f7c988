"""What is new, once for everybody: one thread follows the board's feed for all streams and all who wait.

The latest events are kept in a ring, each as the bytes that a stream sends. A stream has only a cursor: it takes from
the ring what it has not sent, or, if it is further behind than the ring reaches, from the store. So one that does not
read costs nobody anything, and the memory is the ring's, however many there are.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence

from dibs.board import Board
from dibs.errors import DibsError, StoreUnavailable
from dibs.model import Event
from dibs.store.contract import Watch

RING_EVENTS = 5_000
READ_EVENTS = 500
#: A board that nobody touches is looked at this often: what its clock does rings no bell.
LOOK_SECONDS = 5.0
AWAY_SECONDS = 0.5


class Stopping(StoreUnavailable):
    """The server is going down; another, or the next one, goes on."""


class Feed:
    def __init__(self, board: Board, heard: Callable[[Sequence[Event]], None] | None = None) -> None:
        """`heard` is told of every event, in the thread that follows."""
        self._board = board
        self._heard = heard
        self._ring: deque[Event] = deque(maxlen=RING_EVENTS)
        self._changed = threading.Condition()
        self._round = 0
        self.stopping = False
        #: What lies after `_before`, up to `newest`, is in the ring.
        self._before = self.newest = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._follow, name="feed", daemon=True)

    def start(self) -> None:
        """From an event loop, which is told of news from then on."""
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        latest = self._board.events(newest=True, limit=1)
        self._before = self.newest = latest[-1].id if latest else 0
        self._thread.start()

    def stop(self) -> None:
        """Everybody who waits is sent home."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell_loop)

    def wait_for_stop(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.stopping, seconds)

    # For threads

    def watch(self, session: str | None = None) -> Watch:
        return SharedWatch(self)

    def wait(self, seen: int, timeout_seconds: float) -> int:
        """The round that is going on, once it is another than `seen` or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._round != seen or self.stopping, timeout_seconds)
            if self.stopping:
                raise Stopping("the server is stopping; ask again", retry_after_seconds=1)
            return self._round

    # For the event loop

    def after(self, cursor: int) -> list[Event] | None:
        """What is new since `cursor`; None if that is before what the ring holds, and has to be read."""
        with self._changed:
            if cursor >= self.newest:
                return []
            return None if cursor < self._before else [event for event in self._ring if event.id > cursor]

    def read(self, cursor: int) -> Sequence[Event]:
        """The same from the store, at most so many at a time: not for the event loop."""
        return self._board.events(after=cursor, limit=READ_EVENTS)

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
            except DibsError:
                # The store is away; whoever asks is told so by the store itself.
                if watch is not None:
                    watch.close()
                    watch = None
                self.wait_for_stop(AWAY_SECONDS)
        if watch is not None:
            watch.close()

    def _take_in(self) -> None:
        while True:
            events = self._board.events(after=self.newest, limit=READ_EVENTS)
            if self._heard is not None and events:
                self._heard(events)
            with self._changed:
                for event in events:
                    if len(self._ring) == RING_EVENTS:
                        self._before = self._ring[0].id
                    self._ring.append(event)
                if events:
                    self.newest = events[-1].id
                self._round += 1
                self._changed.notify_all()
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._tell_loop)
            if len(events) < READ_EVENTS:
                return

    def _tell_loop(self) -> None:
        """Wake every stream, and have the next wait begin anew."""
        if self._told is not None:
            self._told.set()
            self._told = asyncio.Event()


class SharedWatch(Watch):
    """Woken by the one thread that watches."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._seen = feed._round

    def wait(self, timeout_seconds: float) -> bool:
        before, self._seen = self._seen, self._feed.wait(self._seen, timeout_seconds)
        return self._seen != before

    def close(self) -> None:
        pass
