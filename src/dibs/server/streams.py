"""Live events over SSE: `GET /api/events`. A stream can be taken up where it broke off, also after a restart.

Each event of the feed is told by its own name (`claimed`, `done`, `claimable`, ...) and under its own id; before it,
the four that the session-task contract knows are told in that contract's words. A browser that comes back says the last
id it has, and gets everything after that.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from dibs import jsontext, wire
from dibs.access import VIEWER
from dibs.errors import Invalid, StoreUnavailable
from dibs.model import Event
from dibs.server import session_task
from dibs.server.routes import REFUSALS
from dibs.server.service import Service

KEEP_ALIVE_SECONDS = 15.0
#: How often a stream looks whether its caller's key is still good.
LOOK_SECONDS = 5.0
#: How long a client waits before it comes back.
RETRY_MILLISECONDS = 1000
FILTERS_MAX = 50

Names = Annotated[tuple[str, ...], Query(max_length=FILTERS_MAX)]


class Wanted:
    """Which events a subscriber asked for."""

    def __init__(
        self, service: Service, projects: Sequence[str], items: Sequence[str], sessions: Sequence[str]
    ) -> None:
        self._service = service
        self._projects, self._items, self._sessions = frozenset(projects), frozenset(items), frozenset(sessions)

    def __call__(self, event: Event) -> bool:
        return (
            (not self._items or event.item in self._items)
            and (not self._sessions or event.session in self._sessions)
            and (not self._projects or self._service.project_of(event) in self._projects)
        )


def routes(service: Service) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/api/events",
        summary="Live events, as server-sent events",
        operation_id="stream",
        tags=["events"],
        response_model=None,
        responses={200: {"content": {"text/event-stream": {}}, "description": "events as they come"}, **REFUSALS},
    )
    async def stream(
        request: Request,
        project: Names = (),
        item: Names = (),
        session: Names = (),
        after: Annotated[int | None, Query(ge=0)] = None,
    ) -> Response:
        given = request.headers.get("last-event-id")
        if given is not None and not (given.isascii() and given.isdigit() and len(given) < 17):
            raise Invalid("Last-Event-ID is the id of an event", field="last-event-id")
        cursor = int(given) if given is not None else after

        def check() -> None:
            service.callers.need(service.caller(request), VIEWER)
            if cursor is not None:
                # A cursor from before what was pruned is refused here, while there is somebody to tell.
                service.board.events(after=cursor, limit=1)

        await service.run(check)
        if service.subscribers >= service.subscribers_max:
            raise StoreUnavailable(f"{service.subscribers_max} are listening here already", retry_after_seconds=5)
        start = service.feed.newest if cursor is None else cursor
        wanted = Wanted(service, project, item, session)
        events = told(service, start, wanted, service.callers.good_for(request))
        return StreamingResponse(counted(service, events), media_type="text/event-stream")

    return router


async def counted(service: Service, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    service.subscribers += 1
    try:
        async for piece in events:
            yield piece
    finally:
        service.subscribers -= 1


async def told(service: Service, cursor: int, wanted: Wanted, is_good: Callable[[], bool]) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MILLISECONDS}\nid: {cursor}\n\n".encode()
    looked = time.monotonic()
    while not service.feed.stopping:
        if time.monotonic() - looked >= LOOK_SECONDS:
            if not await service.run(is_good):
                return
            looked = time.monotonic()
        events: Sequence[Event] | None = service.feed.after(cursor)
        if events is None:
            at = cursor
            events = await service.run(lambda at=at: service.feed.read(at))  # type: ignore[misc]
        if events:
            chunk = b"".join(lines(event) for event in events if wanted(event))
            cursor = events[-1].id
            if chunk:
                yield chunk
        elif not await service.feed.changed(KEEP_ALIVE_SECONDS):
            yield b": still here\n\n"
    yield f"event: stopping\nretry: {RETRY_MILLISECONDS}\ndata: {{}}\n\n".encode()


def lines(event: Event) -> bytes:
    """An event as a stream tells it."""
    native = f"id: {event.id}\nevent: {event.kind}\ndata: {jsontext.line(wire.encode(event))}\n\n"
    foreign = session_task.told(event)
    if foreign is None:
        return native.encode()
    return f"event: {foreign['type']}\ndata: {jsontext.line(foreign)}\n\n{native}".encode()
