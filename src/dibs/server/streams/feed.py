"""One thread follows the board's feed for the whole server, and wakes its streams and its waiting requests."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from dibs.board import Board
from dibs.errors import DibsError, Invalid, StoreUnavailable
from dibs.model import Event
from dibs.store.contract import Watch

#: How many events one read returns, and how many characters, since a few events can be as large.
READ_EVENTS = 500
READ_BYTES = 1_000_000
#: The feed is read at least this often, because no notification follows what time alone changes.
POLL_SECONDS = 5.0
RETRY_SECONDS = 0.5
#: After a commit of this process, the feed is read only after this pause: waiting requests go first, and one read
#: collects several commits.
COALESCE_SECONDS = 0.005


class Stopping(StoreUnavailable):
    """The server is stopping; the caller can repeat the request."""


class ClientGone(StoreUnavailable):
    """The client has disconnected, so nothing is claimed for it. Only the log shows this status."""

    http_status = 499


class Waiter:
    """A request that waits in a thread."""

    def __init__(self, authorize: Callable[[], object] = lambda: None) -> None:
        """`authorize` is called each time the waiter wakes, and raises if its key has become invalid."""
        self.authorize = authorize
        #: Why the wait was cancelled, if it was.
        self.cancelled: DibsError | None = None


class Feed:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._changed = threading.Condition()
        #: Counts the changes; waiters compare it with the number that they saw.
        self._generation = 0
        self._local_commit = False
        self.stopping = False
        self.newest = 0
        #: Called by the feed's thread with a cursor and the events after it, before anything is woken.
        self.on_events: list[Callable[[int, Sequence[Event]], None]] = []
        #: Called in the event loop after that.
        self.on_news: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._follow, name="feed", daemon=True)

    def start(self) -> None:
        """Call this in the event loop that `on_news` belongs to."""
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        latest = self._board.events(newest=True, limit=1)
        self.newest = latest[-1].id if latest else 0
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Ends every wait."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()
        self._notify_loop()

    def go_back(self, event: int) -> None:
        """Follow a board that was replaced by an older copy, after the latest event of the copy."""
        with self._changed:
            self.newest = event

    def wait_for_stop(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.stopping, seconds)

    # For threads

    def watch_for(self, waiter: Waiter) -> Callable[[str | None], Watch]:
        return lambda session: FeedWatch(self, waiter)

    def wake_waiters(self) -> None:
        """Called after a commit of this process that made an item claimable. Streams are woken after the next read."""
        with self._changed:
            self._generation += 1
            self._local_commit = True
            self._changed.notify_all()

    def cancel(self, waiter: Waiter, reason: DibsError) -> None:
        with self._changed:
            waiter.cancelled = waiter.cancelled or reason
            self._changed.notify_all()

    def wait(self, seen: int, waiter: Waiter, timeout_seconds: float) -> int:
        """The current generation, once it differs from `seen` or the time is up."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._generation != seen or self.stopping or waiter.cancelled is not None, timeout_seconds
            )
            if waiter.cancelled is not None:
                raise waiter.cancelled
            if self.stopping:
                raise Stopping("the server is stopping; repeat the request", retry_after_seconds=1)
            return self._generation

    # For the event loop

    async def wait_for_news(self, timeout_seconds: float) -> None:
        assert self._news is not None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout_seconds)

    def _follow(self) -> None:
        watch: Watch | None = None
        while not self.stopping:
            try:
                if watch is None:
                    watch = self._board.store.watch()
                self._read_news()
                watch.wait(POLL_SECONDS)
                if self._local_commit:
                    self._local_commit = False
                    self.wait_for_stop(COALESCE_SECONDS)
            except Exception as error:
                # An unavailable store also refuses the calls of clients; any other error is a bug, and is logged.
                if not isinstance(error, DibsError):
                    logging.exception("following the feed failed; retrying")
                _close(watch)
                watch = None
                self.wait_for_stop(RETRY_SECONDS)
        _close(watch)

    def _read_news(self) -> None:
        while not self.stopping:
            after = self.newest
            try:
                events = self._board.events(after=after, limit=READ_EVENTS, bytes_max=READ_BYTES)
            except Invalid as pruned:
                # The events after this cursor were pruned before they were read.
                self.newest = max(after + 1, int(pruned.facts.get("event_floor", 0)))
                continue
            if events:
                for call in self.on_events:
                    call(after, events)
            with self._changed:
                if self.newest != after:
                    continue  # the board was replaced meanwhile
                if events:
                    self.newest = events[-1].id
                self._generation += 1
                self._changed.notify_all()
            self._notify_loop()
            if len(events) < READ_EVENTS and not events.more:
                return

    def _notify_loop(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._announce_news)

    def _announce_news(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = asyncio.Event()
        for call in self.on_news:
            call()


def _close(watch: Watch | None) -> None:
    if watch is not None:
        try:
            watch.close()
        except Exception:
            logging.exception("closing a watch failed")


class FeedWatch(Watch):
    """Woken by the feed's thread, instead of watching the store itself."""

    def __init__(self, feed: Feed, waiter: Waiter) -> None:
        self._feed, self._waiter = feed, waiter
        self._seen = feed._generation

    def wait(self, timeout_seconds: float) -> bool:
        before, self._seen = self._seen, self._feed.wait(self._seen, self._waiter, timeout_seconds)
        self._waiter.authorize()
        return self._seen != before

    def close(self) -> None:
        pass
