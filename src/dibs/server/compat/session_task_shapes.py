"""What is said in the session-task contract, word for word: its bodies and its answers, with its own examples."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from dibs import check
from dibs.server.api import samples
from dibs.server.api.schemas import Instant
from dibs.server.compat import session_task_views as views
from dibs.server.compat.contract_routes import Said, Told

SESSION = "session-abc-123"
TASK = "hierarchy-phase4-metrics"
CLAIMED_AT, EXPIRES_AT = "2025-12-28T12:00:00.000Z", "2025-12-28T12:30:00.000Z"
MILLISECONDS_MAX = 10**12


def _like(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class RegisterSession(Said):
    """`agentType` is what kind of session it is (`autonomous`, `cli`, `person`), `agent` whose it is: by default the
    key's agent, and if that has none, called as its type. Without an id it gets one. `project` and `contextPercent`
    become part of `meta`. `pid` is the process that owns it, if that process holds this very connection."""

    sessionId: str | None = None
    id: str | None = None
    agent: str | None = None
    agentType: str = "autonomous"
    project: str | None = None
    contextPercent: int | float | None = Field(None, ge=0, le=100)
    pid: int | None = Field(None, ge=1, le=check.PID_MAX)
    meta: dict[str, Any] = {}

    model_config = _like({"sessionId": SESSION, "agent": "coder", "agentType": "autonomous"})


class ClaimTask(Said):
    """`agentType` says again what the session was registered as."""

    sessionId: str
    ttlMs: float | None = Field(None, ge=1, le=MILLISECONDS_MAX)
    agentType: str | None = None

    model_config = _like({"sessionId": SESSION, "ttlMs": 1800000, "agentType": "autonomous"})


class ReleaseTask(Said):
    """`completed` ends the task as done, `failed` and `error` as failed; any other reason gives it back."""

    sessionId: str
    reason: str | None = None

    model_config = _like({"sessionId": SESSION, "reason": "completed"})


class ExtendClaim(Said):
    sessionId: str
    extendMs: float | None = Field(None, ge=1, le=MILLISECONDS_MAX)

    model_config = _like({"sessionId": SESSION, "extendMs": 1800000})


class SessionState(Told):
    sessionId: str
    agent: str
    agentType: str
    meta: dict[str, Any]
    startedAt: Instant
    lastSeenAt: Instant


class Registered(Told):
    success: bool
    sessionId: str
    session: SessionState
    pid: int | None = Field(None, description="the process that owns it; only if one was named and is believed")
    pidIgnored: str | None = Field(None, description="why the process that was named does not own it")

    model_config = _like(
        {"success": True, "sessionId": samples.SESSION.id, "session": views.session(samples.SESSION)},
    )


class ClaimOfTask(Told):
    taskId: str
    sessionId: str
    claimedAt: Instant
    expiresAt: Instant


class Claimed(Told):
    success: bool
    claim: ClaimOfTask

    model_config = _like(
        {
            "success": True,
            "claim": {"taskId": TASK, "sessionId": SESSION, "claimedAt": CLAIMED_AT, "expiresAt": EXPIRES_AT},
        }
    )


class HolderOfTask(Told):
    sessionId: str
    claimedAt: Instant
    remainingMs: int


class TaskRefusal(Told):
    """`claim` is there, instead of a message, if another session has the task."""

    success: bool
    error: str
    message: str = ""
    claim: HolderOfTask | None = None

    model_config = _like(
        {
            "success": False,
            "error": "TASK_ALREADY_CLAIMED",
            "claim": {"sessionId": "session-xyz-789", "claimedAt": CLAIMED_AT, "remainingMs": 900000},
        },
        {"success": False, "error": "TASK_NOT_FOUND", "message": f"there is no item {TASK}"},
    )


class ReleaseOfTask(Told):
    taskId: str
    reason: str
    claimDuration: int


class Released(Told):
    success: bool
    released: ReleaseOfTask

    model_config = _like(
        {"success": True, "released": {"taskId": TASK, "reason": "completed", "claimDuration": 1800000}}
    )


class Extension(Told):
    expiresAt: Instant
    heartbeatCount: int


class Extended(Told):
    success: bool
    claim: Extension

    model_config = _like({"success": True, "claim": {"expiresAt": EXPIRES_AT, "heartbeatCount": 3}})


class TaskInFlight(Told):
    title: str
    phase: str | None
    priority: str


class ClaimInFlight(Told):
    sessionId: str
    claimedAt: Instant
    expiresAt: Instant
    agentType: str | None
    healthStatus: str = Field(description="healthy, warning, expiring, stale, orphaned; with includeExpired: expired")


class Flight(Told):
    taskId: str
    task: TaskInFlight
    claim: ClaimInFlight


class Flights(Told):
    total: int
    bySession: dict[str, int]


class InFlight(Told):
    inFlight: list[Flight]
    summary: Flights

    model_config = _like(
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


class CurrentClaim(Told):
    claimedAt: Instant
    remainingMs: int


class CurrentTask(Told):
    taskId: str
    title: str
    claim: CurrentClaim


class Current(Told):
    """Of several, the one that was claimed last; null: none."""

    sessionId: str
    currentTask: CurrentTask | None

    model_config = _like(
        {
            "sessionId": SESSION,
            "currentTask": {
                "taskId": TASK,
                "title": "Phase 4: Delegation Metrics",
                "claim": {"claimedAt": CLAIMED_AT, "remainingMs": 240000},
            },
        }
    )


class CleanedUp(Told):
    """`more`: there is more than one call cleans up."""

    success: bool
    cleaned: int
    expired: list[str]
    orphaned: list[str]
    more: bool

    model_config = _like({"success": True, "cleaned": 1, "expired": [TASK], "orphaned": [], "more": False})


class ClaimStats(Told):
    """`releaseReasons` counts how claims ended, `healthStatus` how those look that go on."""

    activeClaims: int
    totalClaims: int
    conflictsAvoided: int
    claimSuccessRate: float
    averageClaimMs: int
    bySession: dict[str, int]
    healthStatus: dict[str, int]
    releaseReasons: dict[str, int]


class ClaimStatistics(Told):
    stats: ClaimStats

    model_config = _like({"stats": views.figures_of(samples.STATS, [samples.HOLDING])})


class PastClaim(Told):
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


class SessionCounts(Told):
    total: int
    working: int


class SessionsSummary(Told):
    """Sessions that go on, most recently seen first; the last ten claims of each that ended, newest first."""

    sessions: list[SessionInSummary]
    summary: SessionCounts

    model_config = _like(
        {
            "sessions": [
                views.summed_up(samples.SESSION, views.task(samples.HOLDING, samples.CLAIM), [samples.EARLIER]),
            ],
            "summary": {"total": 1, "working": 1},
        }
    )
