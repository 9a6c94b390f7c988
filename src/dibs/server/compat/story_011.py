"""The story-011 contract: its claim function over HTTP, which says yes or no.

A session is made for each instance that is named, as the functions in SQL do; it belongs to the caller's key. What
keeps an item from the instance, whatever it is, is no error: it was not claimed.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ConfigDict

from dibs import check
from dibs.errors import (
    AgentAtCapacity,
    DibsError,
    Forbidden,
    ItemAlreadyClaimed,
    ItemNotClaimable,
    ItemNotFound,
    RateLimited,
    ResourceBusy,
    StoreUnavailable,
    Unauthenticated,
)
from dibs.model import AGENT
from dibs.server.api import bodies, samples
from dibs.server.api.routes import IDEMPOTENCY_KEY
from dibs.server.auth.auth_route import needs_body
from dibs.server.auth.callers import Caller
from dibs.server.compat import contract_routes
from dibs.server.compat.contract_routes import Said, Told
from dibs.server.ops.tracing import traced
from dibs.server.service import Service

PATH = "/functions/v1/agent-claim"
KIND = "http"
#: What was wrong with the call is 400; what stops it before it is one keeps its status.
OUTSIDE = (Unauthenticated, Forbidden, StoreUnavailable)
#: From a claim, Forbidden is the agent's policy.
NOT_GIVEN = (
    ItemNotFound,
    ItemNotClaimable,
    ItemAlreadyClaimed,
    AgentAtCapacity,
    RateLimited,
    ResourceBusy,
    Forbidden,
)
EXAMPLE: dict[str, Any] = {
    "workItemId": "3f2b8f0e-6a53-4c0d-9a55-0f6c1d1a7f10",
    "agentType": "coder",
    "agentInstanceId": "coder-instance-1",
}


class ClaimWorkItem(Said):
    workItemId: str
    agentType: str
    agentInstanceId: str

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})


class WorkItemClaimed(Told):
    """`claimed` is false if the item is not there, not ready, somebody else's, or not for this agent now."""

    success: bool
    claimed: bool

    model_config = ConfigDict(json_schema_extra={"examples": [{"success": True, "claimed": True}]})


class WorkItemError(Told):
    success: bool
    error: str

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"success": False, "error": "workItemId: Field required"}]}
    )


REFUSALS = contract_routes.described(
    "WorkItemError",
    {
        400: "something asked is not valid, or the instance is another agent's",
        401: "no key, or one that is not good",
        403: "another key registered the instance, or the key's role does not do",
        503: "the store is away for a while: see Retry-After",
    },
)


def refused(error: DibsError) -> Response:
    status = error.http_status if isinstance(error, OUTSIDE) else 400
    return contract_routes.no(error, status, {"success": False, "error": contract_routes.message(error)})


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["story-011"], route_class=contract_routes.speaking(service, refused))

    @router.post(
        PATH,
        summary="Claim a work item for an instance of an agent",
        operation_id="agentClaim",
        response_model=None,
        responses={
            200: samples.described(WorkItemClaimed),
            **REFUSALS,
            400: {**REFUSALS[400], "model": WorkItemError},
        },
        **needs_body(AGENT, ClaimWorkItem),
    )
    async def agent_claim(request: Request) -> Response:
        body = await bodies.said(request, ClaimWorkItem)

        def work() -> Response:
            _check(body)
            _begin(service, service.caller(request), body)
            claimed = _claimed(service, body, request.headers.get(IDEMPOTENCY_KEY))
            return contract_routes.told({"success": True, "claimed": claimed})

        return await service.run(work)

    return router


def _check(body: ClaimWorkItem) -> None:
    """Before anything is looked up, and by the names that the caller used."""
    check.item_id(body.workItemId, "workItemId")
    check.agent_name(body.agentType)
    check.name(body.agentInstanceId, "agentInstanceId")


def _begin(service: Service, caller: Caller, body: ClaimWorkItem) -> None:
    """The session of the instance goes on, or begins."""
    found = service.board.store.find_session(body.agentInstanceId)
    if found is not None and found.ended_at is None:
        service.callers.need_own(caller, found)
        return
    agent = service.callers.agent_of(caller, body.agentType)
    service.board.start_session(
        agent, id=body.agentInstanceId, kind=KIND, host="", key=contract_routes.registered_by(caller)
    )


def _claimed(service: Service, body: ClaimWorkItem, request_id: str | None) -> bool:
    item, instance = body.workItemId, body.agentInstanceId
    try:
        with traced("claim", {"item": item, "session": instance}):
            service.board.claim(item, session=instance, agent=body.agentType, request_id=request_id)
    except NOT_GIVEN:
        return False
    return True
