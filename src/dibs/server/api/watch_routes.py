"""What a remote board needs to wait by: whether anything changed, when time alone will change something."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from dibs import check
from dibs.errors import DibsError
from dibs.model import VIEWER
from dibs.server.api import samples, schemas
from dibs.server.api.routes import REFUSALS, answered
from dibs.server.auth.auth_route import keyed, needs
from dibs.server.service import WAIT_SECONDS_MAX, Service

Watched = schemas.small("Watched", {"event": 480}, event=int)
Due = schemas.small("Due", {"due_seconds": 42.5}, due_seconds=float | None)


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["waiting"], route_class=keyed(service))
    watching = service.streaming.kind("watching")

    @router.get(
        "/v1/watch",
        summary="Return once anything changes",
        operation_id="watch",
        responses={200: samples.described(Watched), **REFUSALS},
        **needs(VIEWER),
    )
    async def watch(
        request: Request,
        after: Annotated[int | None, Query(ge=0)] = None,
        wait: Annotated[float, Query(ge=0, le=WAIT_SECONDS_MAX)] = 0.0,
    ) -> Response:
        """`event` is the feed's latest event; answered as soon as that is after `after`, or when the time is up."""
        end = time.monotonic() + min(wait, service.wait_seconds_max)
        refused: asyncio.Future[DibsError] = asyncio.get_running_loop().create_future()
        with service.open_requests.joined(service.open_request(watching, request, _once(refused))):
            while not refused.done():
                newest = service.feed.newest
                left = end - time.monotonic()
                if after is None or newest > after or left <= 0 or service.feed.stopping:
                    return answered({"event": newest})
                news: set[asyncio.Future[Any]] = {refused, asyncio.ensure_future(service.feed.changed(left))}
                await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
        raise refused.result()

    @router.get(
        "/v1/due",
        summary="How long until time alone changes something",
        operation_id="due_seconds",
        responses={200: samples.described(Due), **REFUSALS},
        **needs(VIEWER),
    )
    async def due(request: Request, item: str | None = None) -> Response:
        known = None if item is None else check.item_id(item, "item")
        return await service.run(lambda: answered({"due_seconds": service.board.store.due_seconds(known)}))

    return router


def _once(refused: asyncio.Future[DibsError]) -> Callable[[DibsError], None]:
    def refuse(refusal: DibsError) -> None:
        if not refused.done():
            refused.set_result(refusal)

    return refuse
