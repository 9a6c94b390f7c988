"""Liveness, readiness, the pulse, and the `/health` figures of the claim-by-move contract."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dibs.errors import StoreUnavailable
from dibs.model import Stats
from dibs.server.api import examples, schemas
from dibs.server.api.endpoints import REFUSALS, AuthRoute, Responses, describe
from dibs.server.api.responses import answer
from dibs.server.service import Service

#: Stands for the whole board; no agent can have this name.
ALL_AGENTS = "*"


def claim_figures(stats: Stats, agent: str | None) -> dict[str, Any]:
    """The contract demands a number for the success rate, also when there was no claim."""
    rate = stats.claim_success_rate
    return {
        "agent_name": ALL_AGENTS if agent is None else agent,
        "active_claims": stats.active_claims,
        "total_claims": stats.total_claims,
        "claim_conflicts_avoided": stats.conflicts_avoided,
        "claim_success_rate": 1.0 if rate is None else rate,
    }


#: The example of the contract.
EXAMPLE = claim_figures(
    examples.STATS.replace(active_claims=3, total_claims=142, conflicts_avoided=12, claim_success_rate=0.98), "cloud"
)


Coordination: Any = schemas.make_model(
    "Coordination",
    EXAMPLE,
    agent_name=str,
    active_claims=int,
    total_claims=int,
    claim_conflicts_avoided=int,
    claim_success_rate=float,
)
Health = schemas.make_model("Health", {"coordination": EXAMPLE}, coordination=Coordination)
Live = schemas.make_model("Live", {"live": True}, live=bool)
Ready = schemas.make_model("Ready", {"ready": True}, ready=bool)


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])
    unavailable: Responses = {503: REFUSALS[503]}

    @router.get("/livez", **describe("livez", "The process answers", Live, role=None, refusals={}))
    async def livez() -> Response:
        return answer({"live": True})

    @router.get("/readyz", **describe("readyz", "The store answers", Ready, role=None, refusals=unavailable))
    async def readyz() -> Response:
        if service.feed.stopping:
            raise StoreUnavailable("the server is stopping", retry_after_seconds=1)
        if not service.is_healthy:
            raise StoreUnavailable("a background thread of the server has ended; restart the server")
        service.store_state.require_ready()
        return answer({"ready": True})

    # The routes above need no key.
    router.route_class = AuthRoute
    pulse_summary = "The current figures, for polling every few seconds"

    @router.get("/v1/pulse", **describe("pulse", pulse_summary, schemas.VALUES["Pulse"]))
    async def pulse(request: Request) -> Response:
        return await service.run(lambda: answer(service.board.store.pulse()))

    @router.get("/health", **describe("health", "Figures about claims, of one agent or of the whole board", Health))
    async def health(request: Request, agent: str | None = None) -> Response:
        return await service.run(
            lambda: answer({"coordination": claim_figures(service.board.stats(agent=agent), agent)})
        )

    return router
