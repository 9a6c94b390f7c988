"""One look at the board for a session: what it holds, what was taken from it, and what others reserve.

The history of runs tells it all, so that nothing needs to be remembered between looks: the latest run of each item
either goes on, or ended in a way that the session chose, or was taken from it. An expired claim is recovered if the
agent is at work and nobody took the item.
"""

from __future__ import annotations

from dibs.agents.state import ACTIVE, ANSWERED, CHILD, FRESH_SECONDS, Loss, State, answered
from dibs.errors import ClaimExpired, DibsError, Invalid, SessionNotFound, StoreUnavailable
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board
    from dibs.model import Run

#: How many of the session's latest runs a look reads. More than it can lose at once.
RUNS_MAX = 100
#: How many of an item's latest events are searched for the one that ended a claim.
EVENTS_MAX = 100
#: Outcomes of runs that the holder did not choose: the claim lapsed, or somebody ended it.
LAPSED = frozenset({"expired", "owner_died"})
TAKEN = frozenset({"force_released", "cancelled", "restored"})
#: One that the session chose, but perhaps by another program than the agent, such as the one that started it.
HANDED = "handed"
#: At most one renewal of a claim in so many seconds.
BEAT_SECONDS = 60.0


class Reservation(Value):
    """What the live claim of another session reserves."""

    item: str
    session: str
    agent: str
    project: str
    resources: tuple[str, ...]


class View(Value):
    """What a session holds (items and tokens), the projects in which it has ever claimed, and what others reserve."""

    held: tuple[tuple[str, int], ...] = ()
    projects: tuple[str, ...] = ()
    reserved: tuple[Reservation, ...] = ()


def losses_and_held(board: Board, state: State, *, recovers: bool) -> tuple[tuple[str, int], ...]:
    """Note every loss in the state folder; return the items that the session holds, with their tokens."""
    known = state.noted(ANSWERED)
    held: list[tuple[str, int]] = []
    for run in latest_runs(board, state.session):
        if run.outcome is None:
            held.append((run.item, run.token))
        elif (run.item, run.token) in known:
            continue
        elif run.outcome in LAPSED:
            token = _recovered(board, state, run) if recovers else _still_free(board, state, run)
            held += [] if token is None else [(run.item, token)]
        elif run.outcome in TAKEN or run.outcome == HANDED:
            _lose(board, state, run, run.outcome)
    return tuple(held)


def latest_runs(board: Board, session: str) -> list[Run]:
    """The latest run of each item that the session claimed, newest first."""
    found: dict[str, Run] = {}
    for run in board.runs(session=session, limit=RUNS_MAX):
        found.setdefault(run.item, run)
    return list(found.values())


def is_handed(board: Board, item: str, token: int) -> bool:
    """Whether the claim under this token was handed over by the session that held the item before."""
    return any(run.token == token - 1 and run.outcome == HANDED for run in board.runs(item=item, limit=RUNS_MAX))


def beat(board: Board, state: State, meta: dict[str, Any] | None = None) -> tuple[float, float]:
    """Renew the claims of the session, and say what its client tells; return the seconds until the next heartbeat and
    until the first expiry."""
    try:
        answer = board.heartbeat(session=state.session, at_most_every_seconds=BEAT_SECONDS, meta=meta)
    except Invalid:
        if not meta:
            raise
        return beat(board, state)  # the session's meta has no room for it, which must cost no claim
    except SessionNotFound:
        return BEAT_SECONDS, FRESH_SECONDS  # somebody ended it; a command of the agent starts it again
    left = min((renewal.remaining_seconds for renewal in answer.renewed), default=FRESH_SECONDS)
    return answer.heartbeat_seconds, left


def refresh(board: Board, state: State) -> tuple[tuple[str, int], ...]:
    """What a hook does itself if no keeper did in time: look, renew, and vouch for the state."""
    is_active = state.has(ACTIVE)
    held = losses_and_held(board, state, recovers=is_active)
    try:
        left = beat(board, state)[1] if is_active and held else FRESH_SECONDS
    except StoreUnavailable:
        return held  # it can be read, and another writer is at work: the next look renews
    state.vouch(min(left, FRESH_SECONDS))
    return held


def reservations(board: Board, session: str, parent: str | None) -> tuple[Reservation, ...]:
    """What the live claims of others reserve. A subagent works for its parent: each may write what the other one
    reserves. Two subagents exclude each other."""
    team = (session, parent, *State(session).names(CHILD))
    return tuple(
        Reservation(
            item=holding.item.id,
            session=holding.claim.session,
            agent=holding.claim.agent,
            project=holding.item.project,
            resources=holding.item.resources,
        )
        for holding in board.who()
        if holding.claim is not None and holding.item.resources and holding.claim.session not in team
    )


def projects(board: Board, *sessions: str | None) -> tuple[str, ...]:
    """The projects of the items that these sessions have claimed."""
    items = {run.item for session in sessions if session for run in latest_runs(board, session)}
    return tuple({board.get(item).item.project for item in sorted(items)[:RUNS_MAX]})


def note_answer(board: Board, session: str, item: str, lost: int | None, refusal: DibsError | None) -> None:
    """The board has answered a session about an item. That answers the loss of the token that was known when the
    session asked. A refusal that reports a loss answers that one, also before the keeper has noted it. Of a claim that
    this board does not know, it says nothing: the session may have asked another board than its own."""
    state = State(session)
    record = state.record()
    facts = {} if refusal is None else refusal.facts
    is_told = facts.get("how") in TAKEN | {HANDED} or facts.get("taken_over_by") is not None
    if record is None or not (is_told or lost is not None):
        return
    try:
        runs = board.runs(item=item, limit=RUNS_MAX)
    except DibsError:
        return
    lapsed = [
        run for run in runs if run.session in (session, record.parent) and run.outcome in LAPSED | TAKEN | {HANDED}
    ]
    if lost in [run.token for run in lapsed]:
        answered(session, item, lost)
    mine = next((run for run in lapsed if run.session == session), None)
    if is_told and mine is not None:
        state.answer_claim(item, mine.token)
        answered(session, item, mine.token)


def _recovered(board: Board, state: State, run: Run) -> int | None:
    """The token under which a lapsed claim goes on; None if it is lost."""
    try:
        return board.recover(run.item, session=state.session, token=run.token).claim.token
    except (StoreUnavailable, SessionNotFound):
        return None
    except DibsError as refusal:
        by = refusal.facts.get("taken_over_by") or refusal.facts.get("holder")
        if isinstance(refusal, ClaimExpired) and by is None:
            return None
        _lose(board, state, run, "taken_over" if by else str(refusal.facts.get("status") or refusal.code))
        return None


def _still_free(board: Board, state: State, run: Run) -> int | None:
    """Note a lapsed claim as lost if another session took the item since. Otherwise it can still be recovered."""
    if board.get(run.item).item.token != run.token:
        _lose(board, state, run, "taken_over")
    return None


def _lose(board: Board, state: State, run: Run, how: str) -> None:
    detail = board.get(run.item)
    after = next((one for one in reversed(detail.runs) if one.token > run.token), None)
    by, since = "", run.ended_at or 0
    if how in ("taken_over", HANDED) and after is not None:
        by, since = f"{after.agent} (session {after.session})", after.started_at
    else:
        for event in reversed(board.events(item=run.item, newest=True, limit=EVENTS_MAX)):
            if event.token == run.token and event.kind == how:
                by, since = event.actor, event.at
                break
    state.lose(Loss(item=run.item, token=run.token, how=how, by=by, since=since, resources=detail.item.resources))
