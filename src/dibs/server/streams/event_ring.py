"""The feed as streams send it: every event once in bytes, the latest in a ring, what is older from the store.

A stream has only a cursor and takes page after page. Streams at the same cursor share one page, so what an event costs
does not depend on how many are listening, and the memory is the ring's, whatever anybody reads or does not read.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from dibs.board import Board
from dibs.model import Event
from dibs.server.compat import session_task
from dibs.text import wire

RING_EVENTS = 5_000
#: An event can be large, so that their number alone would be no bound.
RING_BYTES = 8_000_000
#: A page ends before it gets larger than this, unless a single event is. A client that reads slowly keeps one of them.
PAGE_BYTES = 16_384
PAGE_EVENTS = 100
PAGES_KEPT = 64
#: Four times what so many pages have, unless they are of single events that are larger than a page.
KEPT_BYTES = 4 * PAGES_KEPT * PAGE_BYTES


class Told:
    """An event in bytes, with what it can be chosen by."""

    __slots__ = ("id", "item", "lines", "message", "session")

    def __init__(self, event: Event) -> None:
        self.id, self.item, self.session = event.id, event.item, event.session
        self.lines, self.message = lines(event), message(event)


class Page:
    """What follows a cursor, up to `end`; all of it in `lines`."""

    __slots__ = ("end", "lines", "told")

    def __init__(self, told: Sequence[Told]) -> None:
        self.told = told
        self.end = told[-1].id
        self.lines = b"".join(one.lines for one in told)


class Pages:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._lock = threading.Lock()
        #: What lies after `_before` and was heard, is in the ring.
        self._before: int | None = None
        self._ids: list[int] = []
        self._ring: list[Told] = []
        self._bytes = 0
        self._kept: OrderedDict[int, Page] = OrderedDict()
        self._kept_bytes = 0
        #: How many want pages: for nobody, nothing is put into bytes.
        self.wanted = 0

    def hear(self, after: int, events: Sequence[Event]) -> None:
        """The events that come next after this cursor, from the thread that follows the feed."""
        if not self.wanted:
            with self._lock:
                self._empty(None)
            return
        told = [Told(event) for event in events]
        with self._lock:
            if self._before is None or (self._ids[-1] if self._ids else self._before) != after:
                self._empty(after)
            self._ids.extend(one.id for one in told)
            self._ring.extend(told)
            self._bytes += sum(len(one.lines) for one in told)
            self._trim()

    def at(self, cursor: int) -> Page | None:
        """The page after a cursor at which there is news; None if it has to be read."""
        with self._lock:
            if self._before is None or cursor < self._before:
                return None
            start = bisect_right(self._ids, cursor)
            if start == len(self._ids):
                return None
            page = self._kept.get(cursor)
            # One that ended where the ring did then may have become longer.
            if page is None or (page.end < self._ids[-1] and not _is_full(page)):
                page = self._keep(cursor, Page(_fitting(self._ring[start : start + PAGE_EVENTS])))
            return page

    def read(self, cursor: int) -> Page | None:
        """The same from the store, None if there is nothing: not for the event loop."""
        with self._lock:
            page = self._kept.get(cursor)
        if page is not None:
            return page
        events = self._board.events(after=cursor, limit=PAGE_EVENTS, bytes_max=PAGE_BYTES)
        if not events:
            return None
        page = Page(_fitting(map(Told, events)))
        with self._lock:
            return self._keep(cursor, page)

    def _keep(self, cursor: int, page: Page) -> Page:
        before = self._kept.pop(cursor, None)
        self._kept[cursor] = page
        self._kept_bytes += len(page.lines) - (0 if before is None else len(before.lines))
        while len(self._kept) > PAGES_KEPT or (self._kept_bytes > KEPT_BYTES and len(self._kept) > 1):
            self._kept_bytes -= len(self._kept.popitem(last=False)[1].lines)
        return page

    def _empty(self, before: int | None) -> None:
        self._before, self._bytes = before, 0
        self._ids, self._ring = [], []
        if before is None:
            self._kept.clear()
            self._kept_bytes = 0

    def _trim(self) -> None:
        """Let go of the oldest, a page at a time."""
        while len(self._ring) > RING_EVENTS or (self._bytes > RING_BYTES and len(self._ring) > 1):
            gone = self._ring[: min(PAGE_EVENTS, len(self._ring) - 1)]
            self._before = gone[-1].id
            self._bytes -= sum(len(one.lines) for one in gone)
            del self._ring[: len(gone)], self._ids[: len(gone)]


def lines(event: Event) -> bytes:
    """An event as a stream tells it: under its own name and id, before that in the session-task contract's words."""
    native = f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(wire.encode(event))}\n\n"
    foreign = session_task.told(event)
    if foreign is None:
        return native.encode()
    return f"event: {foreign['type']}\ndata: {json.dumps(foreign)}\n\n{native}".encode()


def message(event: Event) -> bytes:
    """An event as a client hears it that takes no event by name: only in the session-task contract's words, if it has
    any."""
    foreign = session_task.told(event)
    return b"" if foreign is None else f"id: {event.id}\ndata: {json.dumps(foreign)}\n\n".encode()


def _fitting(told: Iterable[Told]) -> list[Told]:
    """As many of these as fit on a page, and at least one; no more is made than one too many."""
    found: list[Told] = []
    size = 0
    for one in told:
        size += len(one.lines)
        if size > PAGE_BYTES and found:
            break
        found.append(one)
    return found


def _is_full(page: Page) -> bool:
    return len(page.told) >= PAGE_EVENTS or 2 * len(page.lines) >= PAGE_BYTES
