"""How the session-task contract writes the board's values: claims, sessions, statistics and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from dibs.board import Board
from dibs.errors import SessionNotFound
from dibs.model import ENDED, Claim, Event, Holding, Item, Run, Session, SessionView, Stats
from dibs.rules.event_kinds import OUTCOMES
from dibs.text import priorities, times

#: Which of the contract's events an event of the feed becomes, if a session held the item.
EVENTS = {
    "claimed": "task:claimed",
    **dict.fromkeys(OUTCOMES, "task:released"),
    "expired": "task:claim-expired",
    "owner_died": "task:claim-orphaned",
}
#: Outcomes that the contract has its own word for.
REASONS = {"done": "completed", "owner_died": "session_dead"}
#: Outcomes for which the holder's own reason is shown.
ENDED_BY_HOLDER = frozenset({"released", "failed"})
CLAIM_HISTORY = 10
#: How many of the latest runs are searched for expired claims.
EXPIRED_RUNS = 200


def event(event: Event) -> dict[str, Any] | None:
    """The contract's form of an event, if there is one."""
    kind = EVENTS.get(event.kind)
    if kind is None or event.session is None:
        return None
    data: dict[str, Any] = {"taskId": event.item}
    if kind in ("task:claimed", "task:claim-expired"):
        data["sessionId"] = event.session
    else:
        data["reason"] = release_reason(event.kind, event.data.get("reason"))
    return {"type": kind, "data": data}


def release_reason(outcome: str, reason: str | None) -> str:
    if outcome in ENDED_BY_HOLDER and reason:
        return reason
    return REASONS.get(outcome, outcome)


def in_flight(board: Board, session: str | None, *, expired: bool) -> dict[str, Any]:
    found = [_in_flight(line.item, claim(held), line.kind, line.health) for line, held in _claimed(board.who())]
    if expired:
        found += _expired(board, session)
    found = [one for one in found if session in (None, one["claim"]["sessionId"])]
    by_session = Counter(one["claim"]["sessionId"] for one in found)
    return {"inFlight": found, "summary": {"total": len(found), "bySession": dict(by_session)}}


def _in_flight(item: Item, claim: dict[str, Any], kind: str | None, health: str) -> dict[str, Any]:
    return {
        "taskId": item.id,
        "task": {"title": item.title, "phase": item.phase, "priority": priorities.name(item.priority)},
        "claim": {**claim, "agentType": kind, "healthStatus": health},
    }


def _expired(board: Board, session: str | None) -> list[dict[str, Any]]:
    """The expired claims of items that no session has claimed since, newest first."""
    found = []
    for run in board.runs(session=session, limit=EXPIRED_RUNS):
        if run.outcome != "expired":
            continue
        item = board.get(run.item).item
        if item.token == run.token and item.status not in ENDED:
            claim = _claim_times(run.session, run.started_at, run.ended_at or run.started_at)
            found.append(_in_flight(item, claim, _kind_of(board, run.session), "expired"))
    return found


def _kind_of(board: Board, session: str) -> str | None:
    """None if the board has no such session, which can happen after an import."""
    try:
        return board.find_session(session).kind
    except SessionNotFound:
        return None


def _claimed(lines: Sequence[Holding]) -> Iterable[tuple[Holding, Claim]]:
    return ((line, line.claim) for line in lines if line.claim is not None)


def claim(claim: Claim) -> dict[str, Any]:
    return _claim_times(claim.session, claim.claimed_at, claim.expires_at)


def _claim_times(session: str, claimed_at: int, expires_at: int) -> dict[str, Any]:
    return {"sessionId": session, "claimedAt": times.iso(claimed_at), "expiresAt": times.iso(expires_at)}


def summary(board: Board) -> dict[str, Any]:
    current = _current_tasks(board)
    sessions = [
        session_summary(view.session, current.get(view.session.id), _ended_runs(board, view))
        for view in board.sessions()
    ]
    working = sum(one["currentTaskId"] is not None for one in sessions)
    return {"sessions": sessions, "summary": {"total": len(sessions), "working": working}}


def session_summary(of: Session, current: dict[str, Any] | None, ended: Sequence[Run]) -> dict[str, Any]:
    return {
        **session(of),
        "currentTaskId": None if current is None else current["taskId"],
        "currentTaskClaimedAt": None if current is None else current["claim"]["claimedAt"],
        "currentTask": current,
        "claimHistory": [_past_claim(run) for run in ended],
    }


def session(session: Session) -> dict[str, Any]:
    return {
        "sessionId": session.id,
        "agent": session.agent,
        "agentType": session.kind,
        "meta": session.meta,
        "startedAt": times.iso(session.started_at),
        "lastSeenAt": times.iso(session.seen_at),
    }


def current_task(board: Board, session: str) -> dict[str, Any] | None:
    """The task that the session claimed last, of those it holds."""
    return _current_tasks(board).get(session)


def _current_tasks(board: Board) -> dict[str, dict[str, Any]]:
    held = sorted(_claimed(board.who()), key=lambda pair: pair[1].claimed_at)
    return {claim.session: current(line, claim) for line, claim in held}


def current(line: Holding, claim: Claim) -> dict[str, Any]:
    remaining = milliseconds(line.remaining_seconds)
    return {
        "taskId": line.item.id,
        "title": line.item.title,
        "claim": {"claimedAt": times.iso(claim.claimed_at), "remainingMs": remaining},
    }


def _ended_runs(board: Board, view: SessionView) -> list[Run]:
    """The last ended runs of a session, newest first. Live runs, which `view.recent` includes, may crowd them out."""
    ended = [run for run in view.recent if run.ended_at is not None]
    live = len(view.recent) - len(ended)
    if live and len(view.recent) >= CLAIM_HISTORY:
        runs = board.runs(session=view.session.id, limit=CLAIM_HISTORY + max(view.claims, live))
        ended = [run for run in runs if run.ended_at is not None]
    return ended[:CLAIM_HISTORY]


def _past_claim(run: Run) -> dict[str, Any]:
    return {
        "taskId": run.item,
        "claimedAt": times.iso(run.started_at),
        "releasedAt": times.iso(run.started_at + duration(run)),
        "releaseReason": release_reason(run.outcome or "", run.reason),
        "duration": duration(run),
    }


def stats(stats: Stats, lines: Sequence[Holding]) -> dict[str, Any]:
    held = list(_claimed(lines))
    ended = {outcome: count for outcome, count in stats.outcomes.items() if outcome != "running"}
    rate = stats.claim_success_rate
    return {
        "activeClaims": stats.active_claims,
        "totalClaims": stats.total_claims,
        "conflictsAvoided": stats.conflicts_avoided,
        "claimSuccessRate": 1.0 if rate is None else rate,
        "averageClaimMs": milliseconds(stats.claim_duration_seconds or 0),
        "bySession": dict(Counter(claim.session for _, claim in held)),
        "healthStatus": dict(Counter(line.health for line, _ in held)),
        "releaseReasons": {release_reason(outcome, None): count for outcome, count in ended.items()},
    }


def duration(run: Run) -> int:
    return (run.started_at if run.ended_at is None else run.ended_at) - run.started_at


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
