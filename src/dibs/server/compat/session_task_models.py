"""The bodies and answers of the session-task contract, with the examples of its document."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from dibs import check
from dibs.server.api import examples
from dibs.server.api.schemas import Instant, with_examples
from dibs.server.compat import session_task_views as views
from dibs.server.compat.wire_format import FormatAnswer, FormatRequest

SESSION = "session-abc-123"
TASK = "hierarchy-phase4-metrics"
CLAIMED_AT, EXPIRES_AT = "2025-12-28T12:00:00.000Z", "2025-12-28T12:30:00.000Z"
MILLISECONDS_MAX = 10**12


class RegisterSession(FormatRequest):
    """`agentType` is the kind of the session (`autonomous`, `cli`, `person`). `agent` defaults to the key's agent, then
    to `agentType`. The server makes an id if none is given. `project` and `contextPercent` become part of `meta`. `pid`
    names the process that owns the session, and counts if that process holds this connection."""

    sessionId: str | None = None
    id: str | None = None
    agent: str | None = None
    agentType: str = "autonomous"
    project: str | None = None
    contextPercent: int | float | None = Field(None, ge=0, le=100)
    pid: int | None = Field(None, ge=1, le=check.PID_MAX)
    meta: dict[str, Any] = {}

    model_config = with_examples({"sessionId": SESSION, "agent": "coder", "agentType": "autonomous"})


class SessionRequest(FormatRequest):
    """The session that the request acts for."""

    sessionId: str


class ClaimTask(SessionRequest):
    """`agentType` is ignored: the session was registered with one."""

    ttlMs: float | None = Field(None, ge=1, le=MILLISECONDS_MAX)
    agentType: str | None = None

    model_config = with_examples({"sessionId": SESSION, "ttlMs": 1800000, "agentType": "autonomous"})


class ReleaseTask(SessionRequest):
    """`completed` ends the task as done, `failed` and `error` as failed; any other reason makes it claimable again."""

    reason: str | None = None

    model_config = with_examples({"sessionId": SESSION, "reason": "completed"})


class ExtendClaim(SessionRequest):
    extendMs: float | None = Field(None, ge=1, le=MILLISECONDS_MAX)

    model_config = with_examples({"sessionId": SESSION, "extendMs": 1800000})


class SessionState(FormatAnswer):
    sessionId: str
    agent: str
    agentType: str
    meta: dict[str, Any]
    startedAt: Instant
    lastSeenAt: Instant


class Registered(FormatAnswer):
    success: bool
    sessionId: str
    session: SessionState
    pid: int | None = Field(None, description="the owner process, if one was named and accepted")
    pidIgnored: str | None = Field(None, description="why the named process was not accepted")

    model_config = with_examples(
        {"success": True, "sessionId": examples.SESSION.id, "session": views.session(examples.SESSION)},
    )


class ClaimOfTask(FormatAnswer):
    taskId: str
    sessionId: str
    claimedAt: Instant
    expiresAt: Instant


class Claimed(FormatAnswer):
    success: bool
    claim: ClaimOfTask

    model_config = with_examples(
        {
            "success": True,
            "claim": {"taskId": TASK, "sessionId": SESSION, "claimedAt": CLAIMED_AT, "expiresAt": EXPIRES_AT},
        }
    )


class HolderOfTask(FormatAnswer):
    sessionId: str
    claimedAt: Instant
    remainingMs: int


class TaskRefusal(FormatAnswer):
    """`claim` takes the place of `message` if another session holds the task."""

    success: bool
    error: str
    message: str = ""
    claim: HolderOfTask | None = None

    model_config = with_examples(
        {
            "success": False,
            "error": "TASK_ALREADY_CLAIMED",
            "claim": {"sessionId": "session-xyz-789", "claimedAt": CLAIMED_AT, "remainingMs": 900000},
        },
        {"success": False, "error": "TASK_NOT_FOUND", "message": f"there is no item {TASK}"},
    )


class ReleaseOfTask(FormatAnswer):
    taskId: str
    reason: str
    claimDuration: int


class Released(FormatAnswer):
    success: bool
    released: ReleaseOfTask

    model_config = with_examples(
        {"success": True, "released": {"taskId": TASK, "reason": "completed", "claimDuration": 1800000}}
    )


class Extension(FormatAnswer):
    expiresAt: Instant
    heartbeatCount: int


class Extended(FormatAnswer):
    success: bool
    claim: Extension

    model_config = with_examples({"success": True, "claim": {"expiresAt": EXPIRES_AT, "heartbeatCount": 3}})


class TaskInFlight(FormatAnswer):
    title: str
    phase: str | None
    priority: str


class ClaimInFlight(FormatAnswer):
    sessionId: str
    claimedAt: Instant
    expiresAt: Instant
    agentType: str | None
    healthStatus: str = Field(description="healthy, warning, expiring, stale, orphaned; with includeExpired: expired")


class Flight(FormatAnswer):
    taskId: str
    task: TaskInFlight
    claim: ClaimInFlight


class Flights(FormatAnswer):
    total: int
    bySession: dict[str, int]


class InFlight(FormatAnswer):
    inFlight: list[Flight]
    summary: Flights

    model_config = with_examples(
        {
            "inFlight": [
                {
                    "taskId": TASK,
                    "task": {
                        "title": "Phase 4: Delegation Metrics",
                        "phase": "implementation",
                        "priority": "medium",
                    },
                    "claim": {
                        "sessionId": SESSION,
                        "claimedAt": CLAIMED_AT,
                        "expiresAt": EXPIRES_AT,
                        "agentType": "autonomous",
                        "healthStatus": "healthy",
                    },
                }
            ],
            "summary": {"total": 1, "bySession": {SESSION: 1}},
        }
    )


class CurrentClaim(FormatAnswer):
    claimedAt: Instant
    remainingMs: int


class CurrentTask(FormatAnswer):
    taskId: str
    title: str
    claim: CurrentClaim


class Current(FormatAnswer):
    """The task that the session claimed last; null if it holds none."""

    sessionId: str
    currentTask: CurrentTask | None

    model_config = with_examples(
        {
            "sessionId": SESSION,
            "currentTask": {
                "taskId": TASK,
                "title": "Phase 4: Delegation Metrics",
                "claim": {"claimedAt": CLAIMED_AT, "remainingMs": 240000},
            },
        }
    )


class CleanedUp(FormatAnswer):
    """`more`: one call did not clean up everything."""

    success: bool
    cleaned: int
    expired: list[str]
    orphaned: list[str]
    more: bool

    model_config = with_examples({"success": True, "cleaned": 1, "expired": [TASK], "orphaned": [], "more": False})


class ClaimStats(FormatAnswer):
    """`releaseReasons` counts ended claims by reason, `healthStatus` live claims by health."""

    activeClaims: int
    totalClaims: int
    conflictsAvoided: int
    claimSuccessRate: float
    averageClaimMs: int
    bySession: dict[str, int]
    healthStatus: dict[str, int]
    releaseReasons: dict[str, int]


class ClaimStatistics(FormatAnswer):
    stats: ClaimStats

    model_config = with_examples({"stats": views.stats(examples.STATS, [examples.HOLDING])})


class PastClaim(FormatAnswer):
    taskId: str
    claimedAt: Instant
    releasedAt: Instant
    releaseReason: str
    duration: int


class SessionInSummary(SessionState):
    currentTaskId: str | None
    currentTaskClaimedAt: Instant | None
    currentTask: CurrentTask | None
    claimHistory: list[PastClaim]


class SessionCounts(FormatAnswer):
    total: int
    working: int


class SessionsSummary(FormatAnswer):
    """Live sessions, most recently seen first, each with its last ten ended claims, newest first."""

    sessions: list[SessionInSummary]
    summary: SessionCounts

    model_config = with_examples(
        {
            "sessions": [
                views.session_summary(
                    examples.SESSION,
                    views.current(examples.HOLDING, examples.CLAIM),
                    [examples.EARLIER],
                ),
            ],
            "summary": {"total": 1, "working": 1},
        }
    )
