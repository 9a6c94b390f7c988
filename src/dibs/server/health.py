"""Whether it lives, whether it can serve, and the `/health` figures of the claim-by-move contract."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dibs.access import VIEWER
from dibs.errors import StoreUnavailable
from dibs.server import schemas
from dibs.server.routes import REFUSALS, answered
from dibs.server.service import Service


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/livez", summary="The process answers", operation_id="livez")
    async def livez() -> Response:
        return answered({"live": True})

    @router.get(
        "/readyz",
        summary="The store answers",
        operation_id="readyz",
        responses={503: {"model": schemas.Problem, **REFUSALS[503]}},
    )
    async def readyz() -> Response:
        if service.feed.stopping:
            raise StoreUnavailable("the server is stopping", retry_after_seconds=1)
        await service.run(lambda: service.board.store.due_seconds())
        return answered({"ready": True})

    @router.get("/health", summary="Claims in figures", operation_id="health", responses=REFUSALS)
    async def health(request: Request, agent: str | None = None) -> Response:
        def look() -> dict[str, Any]:
            service.callers.need(service.caller(request), VIEWER)
            return {"coordination": coordination(service, agent)}

        return answered(await service.run(look))

    return router


def coordination(service: Service, agent: str | None) -> dict[str, Any]:
    stats = service.board.stats()
    return {
        "agent_name": agent,
        "active_claims": stats.active_claims,
        "total_claims": stats.total_claims,
        "claim_conflicts_avoided": stats.conflicts_avoided,
        "claim_success_rate": stats.claim_success_rate,
    }
