"""The session-task contract: its endpoints, bodies, codes and events, word for word.

camelCase, ISO times and milliseconds; an item is a task. Everything that it does not say is the board's. A session is
registered first, and acted for only by the key that did so, or an admin's.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from dibs import check
from dibs.board import Board
from dibs.errors import DibsError, Invalid, ItemAlreadyClaimed, SessionNotFound
from dibs.model import AGENT, VIEWER, Ended, Event, Owner, Session
from dibs.server.api import bodies, samples
from dibs.server.api.routes import IDEMPOTENCY_KEY
from dibs.server.auth import peer
from dibs.server.auth.auth_route import needs, needs_body
from dibs.server.compat import contract_routes
from dibs.server.compat import session_task_shapes as shapes
from dibs.server.compat import session_task_views as views
from dibs.server.ops.tracing import traced
from dibs.server.service import Service
from dibs.text import times

#: Which of the contract's events an event of the feed is, if it is about a holder.
EVENTS = {
    "claimed": "task:claimed",
    "expired": "task:claim-expired",
    "owner_died": "task:claim-orphaned",
    **dict.fromkeys(
        (
            *("released", "done", "failed", "submitted", "rejected"),
            *("forgotten", "force_released", "cancelled", "restored"),
        ),
        "task:released",
    ),
}
#: Reasons of a release that end the run otherwise.
COMPLETED, FAILURES = "completed", frozenset({"failed", "error"})

REFUSALS = contract_routes.described(
    "TaskRefusal",
    {
        400: "TASK_NOT_CLAIMABLE: the task is blocked, completed, or kept for another",
        401: "UNAUTHENTICATED: no key, or one that is not good",
        403: "NOT_CLAIM_OWNER: another session has the claim; FORBIDDEN: another key registered the session, or the"
        " key's role does not do",
        404: "TASK_NOT_FOUND, SESSION_NOT_FOUND (also a session that ended), TASK_NOT_CLAIMED",
        409: "TASK_ALREADY_CLAIMED, with the claim; AGENT_AT_CAPACITY, RESOURCE_BUSY",
        410: "CLAIM_EXPIRED: the claim's time was over",
        422: "INVALID: something asked is not valid",
        429: "RATE_LIMITED: see Retry-After",
        503: "STORE_UNAVAILABLE: see Retry-After",
    },
)
Task = Annotated[str, Path(alias="taskId")]
SessionInPath = Annotated[str, Path(alias="sessionId")]


def told(event: Event) -> dict[str, Any] | None:
    """An event in the contract's words, if it has any for it."""
    kind = EVENTS.get(event.kind)
    if kind is None or event.session is None:
        return None
    data: dict[str, Any] = {"taskId": event.item}
    if kind in ("task:claimed", "task:claim-expired"):
        data["sessionId"] = event.session
    else:
        data["reason"] = views.release_reason(event.kind, event.data.get("reason"))
    return {"type": kind, "data": data}


def refused(error: DibsError) -> Response:
    body: dict[str, Any] = {"success": False, "error": error.code}
    if isinstance(error, ItemAlreadyClaimed):
        body["claim"] = {
            "sessionId": error.facts["holder"]["session"],
            "claimedAt": times.iso(error.facts["claimed_at"]),
            "remainingMs": views.milliseconds(error.facts["remaining_seconds"]),
        }
    else:
        body["message"] = contract_routes.message(error)
    return contract_routes.no(error, error.http_status, body)


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["session-task"], route_class=contract_routes.speaking(service, refused))
    for add in (_add_sessions, _add_claiming, _add_keeping, _add_figures):
        add(router, service)
    return router


def _add_sessions(router: APIRouter, service: Service) -> None:
    board = service.board

    @router.post(
        "/api/sessions",
        summary="Register a session",
        **_described("register", shapes.Registered, AGENT, shapes.RegisterSession),
    )
    async def register(request: Request) -> Response:
        body = await bodies.said(request, shapes.RegisterSession)

        def work() -> dict[str, Any]:
            owner, ignored = _owner(request, body.pid)
            session = _registered(service, request, body, owner)
            answer = {"success": True, "sessionId": session.id, "session": views.session(session)}
            if body.pid is None:
                return answer
            return {**answer, "pidIgnored": ignored} if owner is None else {**answer, "pid": body.pid}

        return await service.run(lambda: contract_routes.told(work()))

    @router.get(
        "/api/sessions/{sessionId:path}/current-task",
        summary="Get session's current task",
        **_described("currentTask", shapes.Current),
    )
    async def current_task(request: Request, session: SessionInPath) -> Response:
        def work() -> dict[str, Any]:
            _live(board.find_session(check.name(session, "sessionId")))
            return {"sessionId": session, "currentTask": views.current_task(board, session)}

        return await contract_routes.read(service, work)

    @router.get(
        "/api/sessions/summary",
        summary="Sessions with their current tasks and last claims",
        **_described("sessionsSummary", shapes.SessionsSummary),
    )
    async def summary(request: Request) -> Response:
        return await contract_routes.read(service, lambda: views.summary(board))


def _add_claiming(router: APIRouter, service: Service) -> None:
    board = service.board

    @router.post(
        "/api/tasks/{taskId}/claim",
        summary="Claim task for session",
        **_described("claimTask", shapes.Claimed, AGENT, shapes.ClaimTask),
    )
    async def claim(request: Request, task: Task) -> Response:
        body = await bodies.said(request, shapes.ClaimTask)

        def work() -> dict[str, Any]:
            session = acting_for(service, request, body.sessionId)
            with traced("claim", {"item": task, "session": session}, request.headers):
                grant = board.claim(
                    task, session=session, ttl_seconds=_seconds(body.ttlMs), request_id=_request_id(request)
                )
            return {"success": True, "claim": {"taskId": task, **views.times(grant.claim)}}

        return await service.run(lambda: contract_routes.told(work()))

    @router.post(
        "/api/tasks/{taskId}/release",
        summary="Release claimed task",
        **_described("releaseTask", shapes.Released, AGENT, shapes.ReleaseTask),
    )
    async def release(request: Request, task: Task) -> Response:
        body = await bodies.said(request, shapes.ReleaseTask)

        def work() -> dict[str, Any]:
            session = acting_for(service, request, body.sessionId)
            run = _let_go(board, task, session, body.reason, _request_id(request)).run
            reason = body.reason or views.release_reason(run.outcome or "", run.reason)
            return {
                "success": True,
                "released": {"taskId": task, "reason": reason, "claimDuration": views.duration(run)},
            }

        return await service.run(lambda: contract_routes.told(work()))


def _add_keeping(router: APIRouter, service: Service) -> None:
    board = service.board

    @router.post(
        "/api/tasks/{taskId}/claim/heartbeat",
        summary="Extend claim TTL",
        **_described("extendClaim", shapes.Extended, AGENT, shapes.ExtendClaim),
    )
    async def heartbeat(request: Request, task: Task) -> Response:
        body = await bodies.said(request, shapes.ExtendClaim)

        def work() -> dict[str, Any]:
            session = acting_for(service, request, body.sessionId)
            renewal = board.renew(task, session=session, ttl_seconds=_seconds(body.extendMs))
            claim = {"expiresAt": times.iso(renewal.expires_at), "heartbeatCount": renewal.heartbeat_count}
            return {"success": True, "claim": claim}

        return await service.run(lambda: contract_routes.told(work()))

    @router.post(
        "/api/tasks/claims/cleanup",
        summary="Clean orphaned claims",
        **_described("cleanUp", shapes.CleanedUp, AGENT),
    )
    async def cleanup(request: Request) -> Response:
        def work() -> dict[str, Any]:
            swept = board.sweep()
            expired, orphaned = list(swept.expired), list(swept.owner_died)
            cleaned = len(expired) + len(orphaned)
            return {"success": True, "cleaned": cleaned, "expired": expired, "orphaned": orphaned, "more": swept.more}

        return await service.run(lambda: contract_routes.told(work()))


def _add_figures(router: APIRouter, service: Service) -> None:
    board = service.board

    @router.get("/api/tasks/in-flight", summary="Get all claimed tasks", **_described("inFlight", shapes.InFlight))
    async def in_flight(
        request: Request,
        session: Annotated[str | None, Query(alias="sessionId")] = None,
        expired: Annotated[bool, Query(alias="includeExpired")] = False,
    ) -> Response:
        return await contract_routes.read(service, lambda: views.in_flight(board, session, expired=expired))

    @router.get(
        "/api/tasks/claims/stats", summary="Claim statistics", **_described("claimStats", shapes.ClaimStatistics)
    )
    async def stats(request: Request) -> Response:
        return await contract_routes.read(service, lambda: {"stats": views.stats(board)})


def acting_for(service: Service, request: Request, session: str) -> str:
    """A live session that the caller may act for."""
    caller = service.caller(request)
    found = service.board.find_session(check.name(session, "sessionId"))
    service.callers.need_own(caller, found)
    return _live(found).id


def _live(session: Session) -> Session:
    if session.ended_at is not None:
        raise SessionNotFound(f"the session {session.id} has ended", session=session.id, ended=True)
    return session


def _owner(request: Request, pid: int | None) -> tuple[Owner | None, str]:
    if pid is None:
        return None, ""
    return peer.owner_at(pid, request.scope.get("client"), request.scope.get("server"))


def _registered(service: Service, request: Request, body: shapes.RegisterSession, owner: Owner | None) -> Session:
    caller = service.caller(request)
    if body.id is not None and body.sessionId is not None and body.id != body.sessionId:
        raise Invalid("sessionId and id are the same thing: say one of them", field="sessionId")
    service.callers.need_kind(caller, body.agentType)
    about = {"project": body.project, "contextPercent": body.contextPercent}
    meta = {**body.meta, **{name: value for name, value in about.items() if value is not None}}
    return service.board.start_session(
        service.callers.agent_of(caller, body.agent, otherwise=body.agentType),
        id=body.id if body.sessionId is None else body.sessionId,
        kind=body.agentType,
        host="",
        owner=owner,
        meta=meta,
        key=contract_routes.registered_by(caller),
    )


def _let_go(board: Board, task: str, session: str, reason: str | None, request_id: str | None) -> Ended:
    if reason == COMPLETED:
        with traced("done", {"item": task, "session": session}):
            return board.done(task, session=session, request_id=request_id)
    if reason in FAILURES:
        with traced("fail", {"item": task, "session": session}):
            return board.fail(task, session=session, reason=reason, request_id=request_id)
    with traced("release", {"item": task, "session": session}):
        return board.release(task, session=session, reason=reason, request_id=request_id)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _request_id(request: Request) -> str | None:
    return request.headers.get(IDEMPOTENCY_KEY)


def _described(
    name: str, answer: type[contract_routes.Told], role: str = VIEWER, body: type[contract_routes.Said] | None = None
) -> dict[str, Any]:
    responses = {200: samples.described(answer), **REFUSALS}
    if answer is shapes.Claimed:
        # One route names the model, so that the others can refer to it.
        responses[409] = {**REFUSALS[409], "model": shapes.TaskRefusal}
    extra = needs(role) if body is None else needs_body(role, body)
    return {"operation_id": name, "responses": responses, "response_model": None, **extra}
