"""Live events as server-sent events: `GET /api/events`. A client can resume its stream, also after a restart.

The stream sends each event of the feed under its own name and id, and before it the session-task contract's form of the
event, if there is one. A client that reconnects sends the last id it has, and gets every event after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from dibs.errors import DibsError, Invalid, StoreUnavailable, StoreUnusable
from dibs.server.api.endpoints import AuthRoute, Content, describe
from dibs.server.api.responses import problem_body, redacted_json
from dibs.server.ops.connection import abort_of
from dibs.server.service import Service
from dibs.server.shares import LoopTurns, halves
from dibs.server.streams.feed import RETRY_SECONDS
from dibs.server.streams.filters import EventFilter, ProjectCache, ProjectsOf
from dibs.server.streams.open_requests import OpenRequest
from dibs.server.streams.pages import BacklogReader, EventPage, EventPages
from dibs.server.streams.vitals import VitalSigns

T = TypeVar("T")

MEDIA_TYPE = "text/event-stream"
#: How long a client waits before it reconnects.
RETRY_MILLISECONDS = 1000
#: How long a client that does not read can delay the server's stop.
STOP_SECONDS = 2.0
KEEP_ALIVE_SECONDS_MIN, KEEP_ALIVE_SECONDS_MAX = 1, 60
FILTERS_MAX = 50
CURSOR_DIGITS_MAX = 16
#: After a wake-up, further events within this time are sent together: many small pages would slow down verbs.
COALESCE_SECONDS = 0.05
#: Reading for streams that are behind has its own threads, so that many of them delay no verb.
READ_THREADS = 2
#: How many streams at once take their next page while they have more than that to send: each page is the time of the
#: event loop, and the pages of a long history would take it from everybody else. Streams at the same cursor share a
#: read, so that a few more than there are threads may wait for one.
REPLAYS = halves(16)
#: The timer checks all streams this many times within the shortest of their timeouts.
TICKS = 4

Refuse = Callable[[DibsError], None]
Names = Annotated[tuple[str, ...], Query(max_length=FILTERS_MAX)]


class Streams:
    """All open streams. One timer finds those that need a keep-alive, and those whose clients do not read."""

    def __init__(self, service: Service) -> None:
        self.feed, self._open_requests, self._options = service.feed, service.open_requests, service.streaming
        self.keep_alive_seconds = service.streaming.keep_alive_seconds
        self._all: set[Stream] = set()
        self._threads = ThreadPoolExecutor(READ_THREADS, "stream")
        self._timer: asyncio.TimerHandle | None = None
        self._ticks_in_seconds = 0.0
        self._wake_timer: asyncio.TimerHandle | None = None
        self._woken_at = 0.0
        self._pages, self._projects = EventPages(service.board), ProjectCache(service.board)
        self.feed.on_events += [self._pages.on_events, self._projects.on_events]
        self.feed.on_news.append(self.wake)
        read_vitals = service.board.store.vitals
        self.vitals = VitalSigns(lambda: self._in_thread(read_vitals), self._wake_all, self._go_back)
        self.replays = LoopTurns(REPLAYS)
        self._backlog = BacklogReader(lambda cursor: self._in_thread(lambda: self._pages.from_store(cursor)))

    @contextmanager
    def opened(self, stream: Stream) -> Iterator[None]:
        self._all.add(stream)
        self._pages.readers += 1
        if stream.filter.brief:
            self.vitals.add_listener()
        if self._timer is None or self._tick_seconds() < self._ticks_in_seconds:
            self._start_timer()
        try:
            with self._open_requests.tracked(stream.request):
                yield
        finally:
            self._all.discard(stream)
            self._pages.readers -= 1
            if stream.filter.brief:
                self.vitals.remove_listener()

    async def page(self, cursor: int) -> EventPage | None:
        return self._pages.from_memory(cursor) or await self._backlog.page(cursor)

    async def projects_of(self, items: set[str]) -> ProjectsOf:
        cached = self._projects.cached(items)
        return await self._in_thread(lambda: self._projects.load(items)) if cached is None else cached

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def wake(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._woken_at + COALESCE_SECONDS - loop.time()
        if self.feed.stopping:
            self._wake_all()
            self._abort_stalled(0)
        elif left <= 0:
            self._wake_all()
        elif self._wake_timer is None:
            self._wake_timer = loop.call_later(left, self._wake_all)

    def _wake_all(self) -> None:
        if self._wake_timer is not None:
            self._wake_timer.cancel()
            self._wake_timer = None
        self._woken_at = _now()
        for stream in self._all:
            stream.wakeup.set()

    def _go_back(self, event: int) -> None:
        """The board was replaced by an older copy, whose next events have ids that the lost ones had."""
        self.feed.go_back(event)
        self._pages.forget()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._ticks_in_seconds = self._tick_seconds()
        self._timer = asyncio.get_running_loop().call_later(self._ticks_in_seconds, self._on_timer)

    def _tick_seconds(self) -> float:
        return min(self._options.stalled_seconds, *(stream.keep_alive_seconds for stream in self._all)) / TICKS

    def _on_timer(self) -> None:
        self._timer = None
        if not self._all:
            return
        self._abort_stalled(self._options.stalled_seconds)
        now = _now()
        for stream in self._all:
            if stream.sent_at <= now - stream.keep_alive_seconds and stream.stalled_at is None:
                stream.needs_keep_alive = True
                stream.wakeup.set()
        self._start_timer()

    def _abort_stalled(self, seconds: float) -> None:
        """The client loses only what it has not read, and can resume after the last event that it read."""
        since = _now() - seconds
        for stream in tuple(self._all):
            if stream.stalled_at is not None and stream.stalled_at <= since and stream.abort is not None:
                stream.abort()


class Stream(Response):
    """A response without an end. It holds a cursor, and the one page that is being sent."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        streams: Streams,
        cursor: int,
        filter: EventFilter,
        open_request: Callable[[Refuse], OpenRequest],
        keep_alive_seconds: float | None = None,
    ) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._streams, self._cursor, self.filter = streams, cursor, filter
        self._vitals_seen = 0
        self._opening = opening_frame(cursor, keep_alive_seconds)
        self.keep_alive_seconds = keep_alive_seconds or streams.keep_alive_seconds
        self.wakeup = asyncio.Event()
        self.needs_keep_alive = False
        self.sent_at = _now()
        #: Since when the client has not read what was sent.
        self.stalled_at: float | None = None
        self.abort: Callable[[], None] | None = None
        self._refusal: DibsError | None = None
        self._disconnected = False
        #: Whether there was more to send after the last page.
        self._is_replaying = False
        self.request = open_request(self._refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        self.abort = abort_of(scope)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        listening = asyncio.ensure_future(self._await_disconnect(receive))
        try:
            with self._streams.opened(self):
                await self._send_chunk(self._opening)
                await self._send_events()
                await self._end()
        finally:
            listening.cancel()

    async def _send_events(self) -> None:
        """Until the client disconnects, the server stops, or the stream is refused."""
        feed = self._streams.feed
        while not self._disconnected and not feed.stopping and self._refusal is None:
            # Cleared before anything is read, so that no change is missed.
            self.wakeup.clear()
            if self.needs_keep_alive:
                self.needs_keep_alive = False
                await self._send_chunk(keep_alive_frame(self._cursor))
            if self.filter.brief:
                self._vitals_seen, vitals = self._streams.vitals.after(self._vitals_seen)
                if vitals:
                    await self._send_chunk(vitals)
            if self._cursor >= feed.newest or not await self._send_page():
                await self.wakeup.wait()

    async def _end(self) -> None:
        if self._refusal is not None:
            await self._send_chunk(refused_frame(self._refusal))
        elif self._streams.feed.stopping:
            await self._send_chunk(stopping_frame(self._cursor))
            if self.abort is not None:
                asyncio.get_running_loop().call_later(STOP_SECONDS, self.abort)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_page(self) -> bool:
        """Whether there may be another page."""
        try:
            page, chunk = await self._next_page()
            if page is None:
                return False
        except DibsError as refusal:
            if isinstance(refusal, StoreUnavailable) and not isinstance(refusal, StoreUnusable):
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._refusal = refusal
            return True
        self._cursor = page.end
        self._is_replaying = page.end < self._streams.feed.newest
        if chunk:
            await self._send_chunk(chunk)
        # Otherwise a client that reads fast would keep the event loop for itself.
        await asyncio.sleep(0)
        return True

    async def _next_page(self) -> tuple[EventPage | None, bytes]:
        """The page, and what of it is sent. News go to all streams at once; a replay waits for its turn."""
        async with self._streams.replays.turn(self.request.key) if self._is_replaying else nullcontext():
            page = await self._streams.page(self._cursor)
            return page, b"" if page is None else await self.filter.apply(page, self._streams.projects_of)

    async def _send_chunk(self, chunk: bytes) -> None:
        self.stalled_at = _now()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        self.stalled_at = None
        self.sent_at = _now()

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._disconnected = True
        self.wakeup.set()

    def _refuse(self, refusal: DibsError) -> None:
        self._refusal = refusal
        self.wakeup.set()


def _now() -> float:
    return asyncio.get_running_loop().time()


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["events"], route_class=AuthRoute)
    streams = Streams(service)
    quota = service.streaming.quota("listening")
    content = Content(media_type=MEDIA_TYPE, description="a stream of events")

    @router.get("/api/events", **describe("stream", "Live events, as server-sent events", content))
    async def stream(
        request: Request,
        project: Names = (),
        item: Names = (),
        session: Names = (),
        after: Annotated[int | None, Query(ge=0)] = None,
        messages: bool = False,
        brief: bool = False,
        keep_alive: Annotated[float | None, Query(ge=KEEP_ALIVE_SECONDS_MIN, le=KEEP_ALIVE_SECONDS_MAX)] = None,
    ) -> Response:
        """With `brief`, events come without bodies and drafts, and between them `vitals`: what changes without an
        event. With `keep_alive`, a stream without news sends a comment after so many seconds."""
        if messages and brief:
            raise Invalid("choose messages or brief, not both", field="brief")
        cursor = cursor_of(request.headers.get("last-event-id"), after)
        if cursor is not None:
            # Refuses a cursor before the pruned events while there still can be an error response.
            await service.run(lambda: service.board.events(after=cursor, limit=1))
        start = service.feed.newest if cursor is None else cursor
        wanted = EventFilter(project, item, session, messages, brief)
        return Stream(streams, start, wanted, lambda refuse: service.open_request(quota, request, refuse), keep_alive)

    return router


def cursor_of(last_event_id: str | None, after: int | None) -> int | None:
    """Last-Event-ID, which a browser sends when it reconnects, wins over `after`, which its URL repeats."""
    if last_event_id is None:
        return after
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) <= CURSOR_DIGITS_MAX):
        raise Invalid("Last-Event-ID must be the id of an event", field="last-event-id")
    return int(last_event_id)


# Frames beside events. Each carries the cursor, because a filter may have sent no event for a long time.


def opening_frame(cursor: int, keep_alive_seconds: float | None = None) -> bytes:
    """Says in a field of its own that keep-alives come as often as the client asked."""
    asked = b"" if keep_alive_seconds is None else b"keep-alive: %g\n" % keep_alive_seconds
    return b"retry: %d\n%bid: %d\n\n" % (RETRY_MILLISECONDS, asked, cursor)


def keep_alive_frame(cursor: int) -> bytes:
    return b": still here\nid: %d\n\n" % cursor


def stopping_frame(cursor: int) -> bytes:
    return b'event: stopping\nretry: %d\nid: %d\ndata: {"after": %d}\n\n' % (RETRY_MILLISECONDS, cursor, cursor)


def refused_frame(refusal: DibsError) -> bytes:
    body = problem_body(refusal.http_status, refusal.code, refusal.message, refusal.facts)
    return f"event: refused\ndata: {redacted_json(body)}\n\n".encode()
