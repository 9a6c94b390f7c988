"""The session-task contract: its endpoints, bodies, codes and events exactly as its document defines them.

It writes camelCase, ISO times and milliseconds, and calls an item a task. A session is registered first; then only the
key that registered it, or an admin's, may act for it. Where the contract is silent, the board's rules apply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from dibs import check
from dibs.board import Board
from dibs.errors import DibsError, Invalid, ItemAlreadyClaimed, SessionNotFound
from dibs.model import AGENT, VIEWER, Ended, Owner, Session
from dibs.server.api import bodies
from dibs.server.api.endpoints import describe
from dibs.server.api.verb_routes import IDEMPOTENCY_KEY
from dibs.server.auth import peer_process
from dibs.server.compat import session_task_models as models
from dibs.server.compat import session_task_views as views
from dibs.server.compat import wire_format
from dibs.server.ops.tracing import traced
from dibs.server.service import Service
from dibs.text import times

#: Reasons of a release that end the run as done, or as failed.
COMPLETED, FAILURES = "completed", frozenset({"failed", "error"})

REFUSALS = wire_format.describe_refusals(
    models.TaskRefusal,
    {
        400: "TASK_NOT_CLAIMABLE: the task is blocked, completed, or offered to another session",
        401: "UNAUTHENTICATED: the key is missing or not valid",
        403: "NOT_CLAIM_OWNER: another session holds the claim; FORBIDDEN: another key registered the session, or the"
        " key's role does not suffice",
        404: "TASK_NOT_FOUND, SESSION_NOT_FOUND (also for an ended session), TASK_NOT_CLAIMED",
        409: "TASK_ALREADY_CLAIMED, with the claim; AGENT_AT_CAPACITY, RESOURCE_BUSY",
        410: "CLAIM_EXPIRED: the claim has expired",
        422: "INVALID: a parameter is not valid",
        429: "RATE_LIMITED: see Retry-After",
        503: "STORE_UNAVAILABLE: see Retry-After",
    },
)
Body = TypeVar("Body", bound=models.SessionRequest)
Task = Annotated[str, Path(alias="taskId")]
SessionInPath = Annotated[str, Path(alias="sessionId")]


def refuse(error: DibsError) -> Response:
    body: dict[str, Any] = {"success": False, "error": error.code}
    if isinstance(error, ItemAlreadyClaimed):
        body["claim"] = {
            "sessionId": error.facts["holder"]["session"],
            "claimedAt": times.iso(error.facts["claimed_at"]),
            "remainingMs": views.milliseconds(error.facts["remaining_seconds"]),
        }
    else:
        body["message"] = error.message
    return wire_format.refusal(error, error.http_status, body)


def _describe(
    name: str,
    summary: str,
    answer: type[wire_format.FormatAnswer],
    role: str = VIEWER,
    body: type[wire_format.FormatRequest] | None = None,
) -> dict[str, Any]:
    return describe(name, summary, answer, role, body=body, refusals=REFUSALS)


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["session-task"], route_class=wire_format.route_class(refuse))
    for add in (_add_sessions, _add_claims, _add_reads):
        add(router, service)
    return router


def _add_sessions(router: APIRouter, service: Service) -> None:
    board = service.board

    @router.post(
        "/api/sessions", **_describe("register", "Register a session", models.Registered, AGENT, models.RegisterSession)
    )
    async def register(request: Request) -> Response:
        body = await bodies.read(service.long_work, request, models.RegisterSession)

        def work() -> dict[str, Any]:
            owner, ignored = _owner(request, body.pid)
            session = _register(service, request, body, owner)
            answer = {"success": True, "sessionId": session.id, "session": views.session(session)}
            if body.pid is None:
                return answer
            return {**answer, "pidIgnored": ignored} if owner is None else {**answer, "pid": body.pid}

        return await wire_format.run(service, work)

    @router.get(
        "/api/sessions/{sessionId:path}/current-task",
        **_describe("currentTask", "Get session's current task", models.Current),
    )
    async def current_task(request: Request, session: SessionInPath) -> Response:
        def work() -> dict[str, Any]:
            _require_live(board.find_session(check.name(session, "sessionId")))
            return {"sessionId": session, "currentTask": views.current_task(board, session)}

        return await wire_format.read(service, work)

    @router.get(
        "/api/sessions/summary",
        **_describe("sessionsSummary", "Sessions with their current tasks and last claims", models.SessionsSummary),
    )
    async def summary(request: Request) -> Response:
        return await wire_format.read(service, lambda: views.summary(board))


def _add_claims(router: APIRouter, service: Service) -> None:
    board = service.board

    @router.post(
        "/api/tasks/{taskId}/claim",
        **_describe("claimTask", "Claim task for session", models.Claimed, AGENT, models.ClaimTask),
    )
    async def claim(request: Request, task: Task) -> Response:
        def work(body: models.ClaimTask, session: str) -> dict[str, Any]:
            with traced("claim", {"item": task, "session": session}, request.headers):
                grant = board.claim(
                    task, session=session, ttl_seconds=_seconds(body.ttlMs), request_id=_request_id(request)
                )
            return {"success": True, "claim": {"taskId": task, **views.claim(grant.claim)}}

        return await _run_for_session(service, request, models.ClaimTask, work)

    @router.post(
        "/api/tasks/{taskId}/release",
        **_describe("releaseTask", "Release claimed task", models.Released, AGENT, models.ReleaseTask),
    )
    async def release(request: Request, task: Task) -> Response:
        def work(body: models.ReleaseTask, session: str) -> dict[str, Any]:
            run = _end_run(board, task, session, body.reason, _request_id(request)).run
            reason = body.reason or views.release_reason(run.outcome or "", run.reason)
            released = {"taskId": task, "reason": reason, "claimDuration": views.duration(run)}
            return {"success": True, "released": released}

        return await _run_for_session(service, request, models.ReleaseTask, work)

    @router.post(
        "/api/tasks/{taskId}/claim/heartbeat",
        **_describe("extendClaim", "Extend claim TTL", models.Extended, AGENT, models.ExtendClaim),
    )
    async def heartbeat(request: Request, task: Task) -> Response:
        def work(body: models.ExtendClaim, session: str) -> dict[str, Any]:
            renewal = board.renew(task, session=session, ttl_seconds=_seconds(body.extendMs))
            claim = {"expiresAt": times.iso(renewal.expires_at), "heartbeatCount": renewal.heartbeat_count}
            return {"success": True, "claim": claim}

        return await _run_for_session(service, request, models.ExtendClaim, work)

    @router.post("/api/tasks/claims/cleanup", **_describe("cleanUp", "Clean orphaned claims", models.CleanedUp, AGENT))
    async def cleanup(request: Request) -> Response:
        def work() -> dict[str, Any]:
            swept = board.sweep()
            expired, orphaned = list(swept.expired), list(swept.owner_died)
            cleaned = len(expired) + len(orphaned)
            return {"success": True, "cleaned": cleaned, "expired": expired, "orphaned": orphaned, "more": swept.more}

        return await wire_format.run(service, work)


def _add_reads(router: APIRouter, service: Service) -> None:
    board = service.board

    @router.get("/api/tasks/in-flight", **_describe("inFlight", "Get all claimed tasks", models.InFlight))
    async def in_flight(
        request: Request,
        session: Annotated[str | None, Query(alias="sessionId")] = None,
        expired: Annotated[bool, Query(alias="includeExpired")] = False,
    ) -> Response:
        return await wire_format.read(service, lambda: views.in_flight(board, session, expired=expired))

    @router.get("/api/tasks/claims/stats", **_describe("claimStats", "Claim statistics", models.ClaimStatistics))
    async def stats(request: Request) -> Response:
        return await wire_format.read(service, lambda: {"stats": views.stats(board.stats(), board.who())})


async def _run_for_session(
    service: Service, request: Request, model: type[Body], work: Callable[[Body, str], dict[str, Any]]
) -> Response:
    """Run `work` with the body and the id of its session, which must be live and the caller's own."""
    body = await bodies.read(service.long_work, request, model)

    def run() -> dict[str, Any]:
        caller = service.caller(request)
        session = service.board.find_session(check.name(body.sessionId, "sessionId"))
        service.callers.require_own(caller, session)
        _require_live(session)
        return work(body, session.id)

    return await wire_format.run(service, run)


def _require_live(session: Session) -> None:
    if session.ended_at is not None:
        raise SessionNotFound(f"the session {session.id} has ended", session=session.id, ended=True)


def _owner(request: Request, pid: int | None) -> tuple[Owner | None, str]:
    if pid is None:
        return None, ""
    return peer_process.verified_owner(pid, request.scope.get("client"), request.scope.get("server"))


def _register(service: Service, request: Request, body: models.RegisterSession, owner: Owner | None) -> Session:
    caller = service.caller(request)
    if body.id is not None and body.sessionId is not None and body.id != body.sessionId:
        raise Invalid("sessionId and id mean the same: give only one of them", field="sessionId")
    service.callers.require_kind(caller, body.agentType)
    id = body.id if body.sessionId is None else body.sessionId
    service.callers.require_free_id(caller, id)
    extra = {"project": body.project, "contextPercent": body.contextPercent}
    return service.board.start_session(
        service.callers.agent_for(caller, body.agent, default=body.agentType),
        id=id,
        kind=body.agentType,
        host="",
        owner=owner,
        meta={**body.meta, **{name: value for name, value in extra.items() if value is not None}},
        key=caller.session_key,
    )


def _end_run(board: Board, task: str, session: str, reason: str | None, request_id: str | None) -> Ended:
    verb = "done" if reason == COMPLETED else "fail" if reason in FAILURES else "release"
    with traced(verb, {"item": task, "session": session}):
        if verb == "done":
            return board.done(task, session=session, request_id=request_id)
        if verb == "fail":
            return board.fail(task, session=session, reason=reason, request_id=request_id)
        return board.release(task, session=session, reason=reason, request_id=request_id)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _request_id(request: Request) -> str | None:
    return request.headers.get(IDEMPOTENCY_KEY)
