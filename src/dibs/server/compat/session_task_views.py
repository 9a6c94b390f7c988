"""What the session-task contract shows: tasks in flight, sessions with what they are on and what they had, figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from dibs.board import Board
from dibs.errors import SessionNotFound
from dibs.model import ENDED, Claim, Holding, Item, Run, Session, SessionView, Stats
from dibs.text import priorities
from dibs.text import times as when

#: Ends that the contract has a word of its own for. Where the holder lets go for a reason, that is told; where others
#: do, how.
REASONS = {"done": "completed", "owner_died": "session_dead"}
OF_THE_HOLDER = frozenset({"released", "failed"})
CLAIM_HISTORY = 10
#: Among how many of the latest runs expired claims are looked for.
EXPIRED_RUNS = 200


def in_flight(board: Board, session: str | None, *, expired: bool) -> dict[str, Any]:
    shown = [_in_flight(line.item, times(claim), line.kind, line.health) for line, claim in _claimed(board.who())]
    if expired:
        shown += _expired(board, session)
    found = [one for one in shown if session in (None, one["claim"]["sessionId"])]
    by_session = Counter(one["claim"]["sessionId"] for one in found)
    return {"inFlight": found, "summary": {"total": len(found), "bySession": dict(by_session)}}


def _expired(board: Board, session: str | None) -> list[dict[str, Any]]:
    """The latest claim of each item that nobody has taken since that claim expired, newest first."""
    found = []
    for run in board.runs(session=session, limit=EXPIRED_RUNS):
        if run.outcome != "expired":
            continue
        item = board.get(run.item).item
        if item.token == run.token and item.status not in ENDED:
            kind = _kind_of(board, run.session)
            claim = {
                "sessionId": run.session,
                "claimedAt": when.iso(run.started_at),
                "expiresAt": when.iso(run.ended_at or run.started_at),
            }
            found.append(_in_flight(item, claim, kind, "expired"))
    return found


def _kind_of(board: Board, session: str) -> str | None:
    """None if the session is not there: a board that was imported may have had it elsewhere."""
    try:
        return board.find_session(session).kind
    except SessionNotFound:
        return None


def summary(board: Board) -> dict[str, Any]:
    current = _current(board)
    sessions = [_summary(board, view, current.get(view.session.id)) for view in board.sessions()]
    working = sum(one["currentTaskId"] is not None for one in sessions)
    return {"sessions": sessions, "summary": {"total": len(sessions), "working": working}}


def current_task(board: Board, session: str) -> dict[str, Any] | None:
    """What a session is on: of several, what it claimed last."""
    return _current(board).get(session)


def release_reason(outcome: str, reason: str | None) -> str:
    """Why a claim is over, in one word if there is one."""
    if outcome in OF_THE_HOLDER and reason:
        return reason
    return REASONS.get(outcome, outcome)


def _claimed(lines: Sequence[Holding]) -> Iterable[tuple[Holding, Claim]]:
    """What is held, with the claim by which it is."""
    return ((line, line.claim) for line in lines if line.claim is not None)


def _in_flight(item: Item, claim: dict[str, Any], kind: str | None, health: str) -> dict[str, Any]:
    return {
        "taskId": item.id,
        "task": {"title": item.title, "phase": item.phase, "priority": priorities.name(item.priority)},
        "claim": {**claim, "agentType": kind, "healthStatus": health},
    }


def times(claim: Claim) -> dict[str, Any]:
    return {
        "sessionId": claim.session,
        "claimedAt": when.iso(claim.claimed_at),
        "expiresAt": when.iso(claim.expires_at),
    }


def _current(board: Board) -> dict[str, dict[str, Any]]:
    held = sorted(_claimed(board.who()), key=lambda pair: pair[1].claimed_at)
    return {claim.session: task(line, claim) for line, claim in held}


def task(line: Holding, claim: Claim) -> dict[str, Any]:
    return {
        "taskId": line.item.id,
        "title": line.item.title,
        "claim": {"claimedAt": when.iso(claim.claimed_at), "remainingMs": milliseconds(line.remaining_seconds)},
    }


def session(session: Session) -> dict[str, Any]:
    return {
        "sessionId": session.id,
        "agent": session.agent,
        "agentType": session.kind,
        "meta": session.meta,
        "startedAt": when.iso(session.started_at),
        "lastSeenAt": when.iso(session.seen_at),
    }


def _summary(board: Board, view: SessionView, current: dict[str, Any] | None) -> dict[str, Any]:
    return summed_up(view.session, current, _history(board, view))


def summed_up(of: Session, current: dict[str, Any] | None, history: Sequence[Run]) -> dict[str, Any]:
    return {
        **session(of),
        "currentTaskId": None if current is None else current["taskId"],
        "currentTaskClaimedAt": None if current is None else current["claim"]["claimedAt"],
        "currentTask": current,
        "claimHistory": [_past(run) for run in history],
    }


def _history(board: Board, view: SessionView) -> list[Run]:
    """The last claims of a session that are over, newest first. What it holds stands among its runs as well."""
    ended = [run for run in view.recent if run.ended_at is not None]
    going_on = len(view.recent) - len(ended)
    if going_on and len(view.recent) >= CLAIM_HISTORY:
        runs = board.runs(session=view.session.id, limit=CLAIM_HISTORY + max(view.claims, going_on))
        ended = [run for run in runs if run.ended_at is not None]
    return ended[:CLAIM_HISTORY]


def _past(run: Run) -> dict[str, Any]:
    return {
        "taskId": run.item,
        "claimedAt": when.iso(run.started_at),
        "releasedAt": when.iso(run.started_at + duration(run)),
        "releaseReason": release_reason(run.outcome or "", run.reason),
        "duration": duration(run),
    }


def stats(board: Board) -> dict[str, Any]:
    return figures_of(board.stats(), board.who())


def figures_of(figures: Stats, lines: Sequence[Holding]) -> dict[str, Any]:
    held = list(_claimed(lines))
    ends = {outcome: count for outcome, count in figures.outcomes.items() if outcome != "running"}
    rate = figures.claim_success_rate
    return {
        "activeClaims": figures.active_claims,
        "totalClaims": figures.total_claims,
        "conflictsAvoided": figures.conflicts_avoided,
        "claimSuccessRate": 1.0 if rate is None else rate,
        "averageClaimMs": milliseconds(figures.claim_duration_seconds or 0),
        "bySession": dict(Counter(claim.session for _, claim in held)),
        "healthStatus": dict(Counter(line.health for line, _ in held)),
        "releaseReasons": {release_reason(outcome, None): count for outcome, count in ends.items()},
    }


def duration(run: Run) -> int:
    return (run.started_at if run.ended_at is None else run.ended_at) - run.started_at


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
