"""Live events over SSE: `GET /api/events`. A stream can be taken up where it broke off, also after a restart.

Each event of the feed is told by its own name (`claimed`, `done`, `claimable`, ...) and under its own id; before it,
the four that the session-task contract knows are told in that contract's words. A browser that comes back says the last
id it has, and gets everything after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from dibs.errors import DibsError, Invalid, StoreUnavailable
from dibs.model import VIEWER
from dibs.server.api import problems
from dibs.server.api.open_requests import OpenRequest
from dibs.server.api.routes import REFUSALS
from dibs.server.auth.auth_route import keyed, needs
from dibs.server.auth.guard import Receive, Scope, Send
from dibs.server.ops.connection import cutter
from dibs.server.service import Service
from dibs.server.streams.event_ring import Page
from dibs.server.streams.feed import AWAY_SECONDS
from dibs.server.streams.subscribers import Subscriber, Subscribers

MEDIA_TYPE = "text/event-stream"
#: How long a client waits before it comes back.
RETRY_MILLISECONDS = 1000
#: So long a client that does not read can hold up a stop.
LAST_WORD_SECONDS = 2.0
FILTERS_MAX = 50
CURSOR_DIGITS_MAX = 16

Names = Annotated[tuple[str, ...], Query(max_length=FILTERS_MAX)]


class Wanted:
    """Which events a subscriber asked for, and whether as messages without a name."""

    def __init__(
        self, projects: Sequence[str], items: Sequence[str], sessions: Sequence[str], messages: bool = False
    ) -> None:
        self._projects, self._items, self._sessions = frozenset(projects), frozenset(items), frozenset(sessions)
        self._messages = messages
        self._is_everything = not (projects or items or sessions or messages)

    async def of(self, page: Page, subscribers: Subscribers) -> bytes:
        """What of a page is to be told."""
        if self._is_everything:
            return page.lines
        told = [
            one
            for one in page.told
            if (not self._items or one.item in self._items) and (not self._sessions or one.session in self._sessions)
        ]
        if self._projects and told:
            items = {one.item for one in told}
            projects = subscribers.projects.known(items)
            if projects is None:
                projects = await subscribers.read(lambda: subscribers.projects.look_up(items))
            told = [one for one in told if projects[one.item] in self._projects]
        return b"".join(one.message if self._messages else one.lines for one in told)


class Stream(Response):
    """An answer that goes on. It holds a cursor, and the one piece that is on its way."""

    media_type = MEDIA_TYPE

    def __init__(
        self, subscribers: Subscribers, subscriber: Subscriber, stays: OpenRequest, cursor: int, wanted: Wanted
    ) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._subscribers, self._me, self._stays = subscribers, subscriber, stays
        self._cursor, self._wanted = cursor, wanted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        self._me.cut = cutter(scope)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        listening = asyncio.ensure_future(self._await_leaving(receive))
        try:
            with self._subscribers.open_requests.joined(self._stays), self._subscribers.joined(self._me):
                await self._tell(opening(self._cursor))
                await self._go_on()
                await self._end()
        finally:
            listening.cancel()

    async def _go_on(self) -> None:
        """Until the client leaves, the server stops, or there is a reason not to go on."""
        me, feed = self._me, self._subscribers.feed
        while not me.gone and not feed.stopping and me.refusal is None:
            # Before anything is looked at: whatever changes from here on wakes.
            me.woken.clear()
            if me.is_quiet:
                me.is_quiet = False
                await self._tell(still_here(self._cursor))
            if self._cursor >= feed.newest or not await self._told_page():
                await me.woken.wait()

    async def _end(self) -> None:
        me = self._me
        if me.refusal is not None:
            await self._tell(refused(me.refusal))
        elif self._subscribers.feed.stopping:
            await self._tell(stopping(self._cursor))
            if me.cut is not None:
                asyncio.get_running_loop().call_later(LAST_WORD_SECONDS, me.cut)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _told_page(self) -> bool:
        """Tell what comes next; whether there was anything."""
        try:
            page = self._subscribers.pages.at(self._cursor)
            if page is None:
                page = await self._subscribers.catching_up.page(self._cursor)
            if page is None:
                return False
            chunk = await self._wanted.of(page, self._subscribers)
        except StoreUnavailable:
            await asyncio.sleep(AWAY_SECONDS)
            return True
        except DibsError as refusal:
            self._me.refusal = refusal
            return True
        self._cursor = page.end
        if chunk:
            await self._tell(chunk)
        # A client that reads fast would else keep the event loop for itself.
        await asyncio.sleep(0)
        return True

    async def _tell(self, chunk: bytes) -> None:
        me = self._me
        me.stalled_at = me.now()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        me.stalled_at = None
        me.told_at = me.now()

    async def _await_leaving(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._me.leave()


def routes(service: Service) -> APIRouter:
    router = APIRouter(route_class=keyed(service))
    subscribers = Subscribers(service)
    listening = service.streaming.kind("listening")

    @router.get(
        "/api/events",
        summary="Live events, as server-sent events",
        operation_id="stream",
        tags=["events"],
        response_class=Response,
        responses={200: {"content": {MEDIA_TYPE: {}}, "description": "events as they come"}, **REFUSALS},
        **needs(VIEWER),
    )
    async def stream(
        request: Request,
        project: Names = (),
        item: Names = (),
        session: Names = (),
        after: Annotated[int | None, Query(ge=0)] = None,
        messages: bool = False,
    ) -> Response:
        cursor = cursor_of(request.headers.get("last-event-id"), after)

        if cursor is not None:
            # A cursor from before what was pruned is refused here, while there is somebody to tell.
            await service.run(lambda: service.board.events(after=cursor, limit=1))
        me = Subscriber()
        stays = service.open_request(listening, request, me.refuse)
        start = service.feed.newest if cursor is None else cursor
        return Stream(subscribers, me, stays, start, Wanted(project, item, session, messages))

    return router


def cursor_of(last_event_id: str | None, after: int | None) -> int | None:
    """Where to go on: what a browser that comes back says counts more than where it began."""
    if last_event_id is None:
        return after
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) <= CURSOR_DIGITS_MAX):
        raise Invalid("Last-Event-ID is the id of an event", field="last-event-id")
    return int(last_event_id)


# What is told beside events. Each says where to resume, also to who filters and was told no event for long.


def opening(cursor: int) -> bytes:
    return b"retry: %d\nid: %d\n\n" % (RETRY_MILLISECONDS, cursor)


def still_here(cursor: int) -> bytes:
    return b": still here\nid: %d\n\n" % cursor


def stopping(cursor: int) -> bytes:
    return b'event: stopping\nretry: %d\nid: %d\ndata: {"after": %d}\n\n' % (RETRY_MILLISECONDS, cursor, cursor)


def refused(refusal: DibsError) -> bytes:
    told = problems.body(refusal.http_status, refusal.code, refusal.message, refusal.facts)
    return f"event: refused\ndata: {problems.text(told)}\n\n".encode()
