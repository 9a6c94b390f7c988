"""The feed as pages of encoded events: the latest from a ring buffer, older ones from the store.

A stream has only a cursor and takes page after page. Streams at the same cursor share a page, so the cost of an event
does not depend on the number of streams, and the ring bounds memory however slowly clients read.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from dibs.board import Board
from dibs.model import Event
from dibs.server.compat import session_task_views
from dibs.text import wire

RING_EVENTS = 5_000
#: The number of events alone would be no bound, because an event can be large.
RING_BYTES = 8_000_000
#: A page is no larger than this, unless it is a single event. The server holds one page for each slow client.
PAGE_BYTES = 16_384
PAGE_EVENTS = 100
CACHED_PAGES = 64
#: What a brief event leaves off, and how much of a note, a reason or a comment it has.
NOT_BRIEF = frozenset({"body", "payload", "resources", "draft", "links", "cost", "checks", "meta"})
TEXT_LENGTH_MAX = 500
#: Four times what full pages take: pages of a single large event can be larger.
CACHED_BYTES = 4 * CACHED_PAGES * PAGE_BYTES


class EncodedEvent:
    """An event as bytes, and the fields that filters compare."""

    __slots__ = ("brief", "frames", "id", "item", "message", "session")

    def __init__(self, event: Event) -> None:
        self.id, self.item, self.session = event.id, event.item, event.session
        self.frames, self.message, self.brief = sse_frames(event), sse_message(event), sse_brief(event)


class EventPage:
    """The events after a cursor up to `end`."""

    __slots__ = ("end", "events", "frames")

    def __init__(self, events: Sequence[EncodedEvent]) -> None:
        self.events = events
        self.end = events[-1].id
        self.frames = b"".join(event.frames for event in events)

    @property
    def is_full(self) -> bool:
        return len(self.events) >= PAGE_EVENTS or 2 * len(self.frames) >= PAGE_BYTES


class EventPages:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._lock = threading.Lock()
        #: The ring has every event after this cursor; None: the ring is not in use.
        self._ring_after: int | None = None
        self._ring: list[EncodedEvent] = []
        self._ring_bytes = 0
        self._cache: OrderedDict[int, EventPage] = OrderedDict()
        self._cached_bytes = 0
        #: How many streams there are. Without any, no event is encoded.
        self.readers = 0

    def on_events(self, after: int, events: Sequence[Event]) -> None:
        """Called by the feed's thread."""
        if not self.readers:
            with self._lock:
                self._reset(None)
            return
        encoded = [EncodedEvent(event) for event in events]
        with self._lock:
            if self._ring_after is None or (self._ring[-1].id if self._ring else self._ring_after) != after:
                self._reset(after)
            self._ring.extend(encoded)
            self._ring_bytes += sum(len(event.frames) for event in encoded)
            self._trim()

    def forget(self) -> None:
        with self._lock:
            self._reset(None)

    def from_memory(self, cursor: int) -> EventPage | None:
        """The page after a cursor; None if the ring does not have it."""
        with self._lock:
            if self._ring_after is None or cursor < self._ring_after:
                return None
            start = bisect_right(self._ring, cursor, key=lambda event: event.id)
            if start == len(self._ring):
                return None
            page = self._cache.get(cursor)
            # A page that was cached at the end of the ring may have grown since.
            if page is None or (page.end < self._ring[-1].id and not page.is_full):
                page = self._store(cursor, EventPage(_fitting(self._ring[start : start + PAGE_EVENTS])))
            return page

    def from_store(self, cursor: int) -> EventPage | None:
        """The page after a cursor; None if there are no events. Do not call this in the event loop."""
        with self._lock:
            page = self._cache.get(cursor)
        if page is not None:
            return page
        events = self._board.events(after=cursor, limit=PAGE_EVENTS, bytes_max=PAGE_BYTES)
        if not events:
            return None
        page = EventPage(_fitting(map(EncodedEvent, events)))
        with self._lock:
            return self._store(cursor, page)

    def _store(self, cursor: int, page: EventPage) -> EventPage:
        before = self._cache.pop(cursor, None)
        self._cache[cursor] = page
        self._cached_bytes += len(page.frames) - (0 if before is None else len(before.frames))
        while len(self._cache) > CACHED_PAGES or (self._cached_bytes > CACHED_BYTES and len(self._cache) > 1):
            self._cached_bytes -= len(self._cache.popitem(last=False)[1].frames)
        return page

    def _reset(self, after: int | None) -> None:
        self._ring_after, self._ring, self._ring_bytes = after, [], 0
        if after is None:
            self._cache.clear()
            self._cached_bytes = 0

    def _trim(self) -> None:
        """Remove the oldest events, a page at a time."""
        while len(self._ring) > RING_EVENTS or (self._ring_bytes > RING_BYTES and len(self._ring) > 1):
            removed = self._ring[: min(PAGE_EVENTS, len(self._ring) - 1)]
            self._ring_after = removed[-1].id
            self._ring_bytes -= sum(len(event.frames) for event in removed)
            del self._ring[: len(removed)]


def sse_frames(event: Event) -> bytes:
    """An event under its own name and id, after the session-task contract's form of it, if that has one."""
    native = _native_frame(event)
    compat = session_task_views.event(event)
    if compat is None:
        return native.encode()
    return f"event: {compat['type']}\ndata: {json.dumps(compat)}\n\n{native}".encode()


def sse_message(event: Event) -> bytes:
    """An event for clients that handle unnamed messages only: the session-task contract's form, or nothing."""
    compat = session_task_views.event(event)
    return b"" if compat is None else f"id: {event.id}\ndata: {json.dumps(compat)}\n\n".encode()


def sse_brief(event: Event) -> bytes:
    """An event as `GET /api/events?brief=1` sends it: without what only the detail of its item shows."""
    data = {
        name: value[:TEXT_LENGTH_MAX] if isinstance(value, str) else value
        for name, value in event.data.items()
        if name not in NOT_BRIEF
    }
    return _native_frame(event.replace(data=data)).encode()


def _native_frame(event: Event) -> str:
    return f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(wire.encode(event))}\n\n"


def _fitting(events: Iterable[EncodedEvent]) -> list[EncodedEvent]:
    """As many events as fit on a page, at least one. Takes at most one event more from the iterator."""
    found: list[EncodedEvent] = []
    size = 0
    for event in events:
        size += len(event.frames)
        if size > PAGE_BYTES and found:
            break
        found.append(event)
    return found


class BacklogReader:
    """Reads pages from the store for streams that are behind the ring, one read for all streams at one cursor.

    After a restart, many clients resume at once. Every other read serves the lowest cursor, so that streams meet at one
    cursor and continue together; the reads between serve the cursor that has waited longest, so that no stream waits
    for all others. A client that does not read its stream requests no page and delays no other.
    """

    def __init__(self, read: Callable[[int], asyncio.Future[EventPage | None]]) -> None:
        """`read` starts to read the page after a cursor, in a thread."""
        self._read = read
        #: Requested pages by cursor, the longest waiting first.
        self._requests: dict[int, asyncio.Future[EventPage | None]] = {}
        self._cursors: list[int] = []  # a heap
        self._reading: asyncio.Future[None] | None = None

    async def page(self, cursor: int) -> EventPage | None:
        request = self._requests.get(cursor)
        if request is None:
            request = self._requests[cursor] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._cursors, cursor)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read_all())
        return await asyncio.shield(request)

    async def _read_all(self) -> None:
        lowest_first = True
        while self._requests:
            cursor = self._lowest() if lowest_first else next(iter(self._requests))
            lowest_first = not lowest_first
            read = self._read(cursor)
            await asyncio.wait([read])
            request, error = self._requests.pop(cursor), read.exception()
            if error is None:
                request.set_result(read.result())
            else:
                request.set_exception(error)
                request.exception()  # marks it as retrieved, in case every stream has left

    def _lowest(self) -> int:
        """Skips cursors that were served as the longest waiting."""
        while (cursor := heapq.heappop(self._cursors)) not in self._requests:
            pass
        return cursor
