"""Whether it lives, whether it can serve, its pulse, and the `/health` figures of the claim-by-move contract."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from dibs.errors import StoreUnavailable
from dibs.model import VIEWER, Stats
from dibs.server.api import samples, schemas
from dibs.server.api.routes import REFUSALS, answered
from dibs.server.auth.auth_route import keyed, needs
from dibs.server.service import Service

#: The name of no agent.
EVERYBODY = "*"


def told(stats: Stats, agent: str | None) -> dict[str, Any]:
    """Figures in the contract's words and types: where nothing was tried, nothing went wrong."""
    rate = stats.claim_success_rate
    return {
        "agent_name": EVERYBODY if agent is None else agent,
        "active_claims": stats.active_claims,
        "total_claims": stats.total_claims,
        "claim_conflicts_avoided": stats.conflicts_avoided,
        "claim_success_rate": 1.0 if rate is None else rate,
    }


#: That of the contract itself.
EXAMPLE = told(
    samples.STATS.replace(active_claims=3, total_claims=142, conflicts_avoided=12, claim_success_rate=0.98), "cloud"
)


class Coordination(BaseModel):
    """`agent_name` is `*` for the whole board."""

    agent_name: str
    active_claims: int
    total_claims: int
    claim_conflicts_avoided: int
    claim_success_rate: float

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE]})


class Health(BaseModel):
    coordination: Coordination

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"coordination": EXAMPLE}]})


Live = schemas.small("Live", {"live": True}, live=bool)
Ready = schemas.small("Ready", {"ready": True}, ready=bool)


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])
    _add_open(router, service)
    _add_figures(router, service)
    return router


def _add_open(router: APIRouter, service: Service) -> None:
    @router.get(
        "/livez",
        summary="The process answers",
        operation_id="livez",
        responses={200: samples.described(Live)},
    )
    async def livez() -> Response:
        return answered({"live": True})

    @router.get(
        "/readyz",
        summary="The store answers",
        operation_id="readyz",
        responses={200: samples.described(Ready), 503: {"model": schemas.Problem, **REFUSALS[503]}},
    )
    async def readyz() -> Response:
        if service.feed.stopping:
            raise StoreUnavailable("the server is stopping", retry_after_seconds=1)
        if not service.is_whole:
            raise StoreUnavailable("a part of the server has ended; it has to be started again")
        await service.run(lambda: service.board.store.due_seconds())
        return answered({"ready": True})


def _add_figures(router: APIRouter, service: Service) -> None:
    router.route_class = keyed(service)

    @router.get(
        "/v1/pulse",
        summary="The figures of this instant, to be asked for every few seconds",
        operation_id="pulse",
        response_model=None,
        responses={200: samples.described(schemas.ANSWERS["Pulse"]), **REFUSALS},
        **needs(VIEWER),
    )
    async def pulse(request: Request) -> Response:
        return await service.run(lambda: answered(service.board.store.pulse()))

    @router.get(
        "/health",
        summary="Claims in figures, of one agent or of the whole board",
        operation_id="health",
        response_model=None,
        responses={200: samples.described(Health), **REFUSALS},
        **needs(VIEWER),
    )
    async def health(request: Request, agent: str | None = None) -> Response:
        return await service.run(lambda: answered({"coordination": told(service.board.stats(agent=agent), agent)}))
