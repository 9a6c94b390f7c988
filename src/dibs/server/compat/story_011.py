"""The story-011 contract: its claim function over HTTP, which answers yes or no.

The server starts a session for each instance that is named, as the contract's SQL functions do; the session belongs to
the caller's key. Whatever prevents a claim is not an error: the answer is `claimed: false`.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

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
from dibs.server.api import bodies
from dibs.server.api.endpoints import describe
from dibs.server.api.schemas import with_examples
from dibs.server.api.verb_routes import IDEMPOTENCY_KEY
from dibs.server.auth.callers import Caller
from dibs.server.compat import wire_format
from dibs.server.compat.wire_format import FormatAnswer, FormatRequest
from dibs.server.ops.tracing import traced
from dibs.server.service import Service

PATH = "/functions/v1/agent-claim"
KIND = "http"
#: These keep their status; every other refusal of the call is 400.
OWN_STATUS = (Unauthenticated, Forbidden, StoreUnavailable)
#: Refusals of a claim that the contract answers with `claimed: false`. Forbidden comes from the agent's policy.
NOT_CLAIMED = (
    ItemNotFound,
    ItemNotClaimable,
    ItemAlreadyClaimed,
    AgentAtCapacity,
    RateLimited,
    ResourceBusy,
    Forbidden,
)


class ClaimWorkItem(FormatRequest):
    workItemId: str
    agentType: str
    agentInstanceId: str

    model_config = with_examples(
        {
            "workItemId": "3f2b8f0e-6a53-4c0d-9a55-0f6c1d1a7f10",
            "agentType": "coder",
            "agentInstanceId": "coder-instance-1",
        }
    )


class WorkItemClaimed(FormatAnswer):
    """`claimed` is false if the item does not exist, is not ready, is held, or may not go to this agent now."""

    success: bool
    claimed: bool

    model_config = with_examples({"success": True, "claimed": True})


class WorkItemError(FormatAnswer):
    success: bool
    error: str

    model_config = with_examples({"success": False, "error": "workItemId: Field required"})


REFUSALS = wire_format.describe_refusals(
    WorkItemError,
    {
        400: "a parameter is not valid, or the instance belongs to another agent",
        401: "the key is missing or not valid",
        403: "another key registered the instance, or the key's role does not suffice",
        503: "the store is unavailable: see Retry-After",
    },
)


def refuse(error: DibsError) -> Response:
    status = error.http_status if isinstance(error, OWN_STATUS) else 400
    return wire_format.refusal(error, status, {"success": False, "error": error.message})


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["story-011"], route_class=wire_format.route_class(refuse))
    summary = "Claim a work item for an instance of an agent"

    @router.post(PATH, **describe("agentClaim", summary, WorkItemClaimed, AGENT, body=ClaimWorkItem, refusals=REFUSALS))
    async def agent_claim(request: Request) -> Response:
        body = await bodies.read(service.long_work, request, ClaimWorkItem)

        def work() -> dict[str, Any]:
            _check(body)
            _require_session(service, service.caller(request), body)
            claimed = _claim(service, body, request.headers.get(IDEMPOTENCY_KEY))
            return {"success": True, "claimed": claimed}

        return await wire_format.run(service, work)

    return router


def _check(body: ClaimWorkItem) -> None:
    """Before anything is read, so that refusals have the caller's names for parameters."""
    check.item_id(body.workItemId, "workItemId")
    check.agent_name(body.agentType)
    check.name(body.agentInstanceId, "agentInstanceId")


def _require_session(service: Service, caller: Caller, body: ClaimWorkItem) -> None:
    """Start the instance's session unless it is live."""
    found = service.board.store.find_session(body.agentInstanceId)
    if found is not None and found.ended_at is None:
        service.callers.require_own(caller, found)
        return
    service.callers.require_free_id(caller, body.agentInstanceId)
    agent = service.callers.agent_for(caller, body.agentType)
    service.board.start_session(agent, id=body.agentInstanceId, kind=KIND, host="", key=caller.session_key)


def _claim(service: Service, body: ClaimWorkItem, request_id: str | None) -> bool:
    item, instance = body.workItemId, body.agentInstanceId
    try:
        with traced("claim", {"item": item, "session": instance}):
            service.board.claim(item, session=instance, agent=body.agentType, request_id=request_id)
    except NOT_CLAIMED:
        return False
    return True
