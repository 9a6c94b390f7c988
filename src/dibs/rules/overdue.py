"""Transitions that time causes: an expired claim, a schedule that has come, an offer that was not accepted.

Every verb that wants an item applies them first, so no daemon is needed. A read applies them without writing.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.model import BLOCKED, SCHEDULED
from dibs.rules import ending, queueing, table
from dibs.rules.decision import BOARD, State, Step, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.model import Ticket

#: Expiry, schedule and a queue of dead waiters can follow one another; more steps than this at once are a bug.
STEPS_MAX = 10_000


def due_steps(now: int, state: State, settings: Settings) -> tuple[list[Step], State]:
    """The steps that are due for this item by now, and its state after them."""
    steps: list[Step] = []
    while len(steps) < STEPS_MAX:
        move = _next_due(now, state, settings)
        if move is None:
            return steps, state
        for one in queueing.follow(now, state, move, settings):
            steps.append(one)
            state = one.after(state)
    raise AssertionError(f"{state.item.id} has more than {STEPS_MAX} overdue steps")


def effective_state(
    now: int, state: State, dead: Mapping[str, str], settings: Settings
) -> tuple[State, tuple[Ticket, ...]]:
    """The state that a claim at this instant would find after it recorded overdue steps and ended the sessions in
    `dead`, whose owner processes, or those of their ancestors, are dead; and the tickets that this closes. `dead` has
    the end reason of each.

    Nothing is recorded: revision and `updated_at` stay those of the last event, and an expired run ended when its claim
    expired, so that repeated reads give the same answer.
    """
    stored = state
    steps, state = due_steps(now, state, settings)
    if stored.claim is not None and state.claim is None and state.run is not None:
        state = state.replace(run=state.run.replace(ended_at=stored.claim.expires_at))
    closed = [ticket for one in steps for ticket in one.closed]
    if state.claim is not None and state.claim.session in dead:
        end = ending.owner_died(now, state, settings, dead[state.claim.session])
        for one in queueing.follow(now, state, end, settings):
            state = one.after(state)
            closed += one.closed
    for session in [ticket.session for ticket in state.tickets if ticket.session in dead]:
        ticket, onward = queueing.leave(now, state, session, settings, "its session ended")
        state = state.replace(tickets=tuple(one for one in state.tickets if one.id != ticket.id))
        closed.append(ticket)
        for one in onward:
            state = one.after(state)
            closed += one.closed
    item = state.item.replace(revision=stored.item.revision, updated_at=stored.item.updated_at)
    return state.replace(item=item), tuple(closed)


def _next_due(now: int, state: State, settings: Settings) -> Step | None:
    item, claim = state.item, state.claim
    if claim is not None:
        return ending.expire(now, state, settings) if claim.expires_at <= now else None
    if item.offer_expires_at is not None and item.offer_expires_at <= now:
        return queueing.lapse(now, state)
    return settle(now, state)


def settle(now: int, state: State) -> Step | None:
    """The step that gives a blocked or scheduled item the status that its fields imply now; None if it has that."""
    item = state.item
    status = table.rest(item, now, blocked=bool(state.blockers))
    if item.status not in (BLOCKED, SCHEDULED) or status == item.status:
        return None
    kind = "unblocked" if item.status == BLOCKED else "due"
    return step(state, kind=kind, at=now, status=status, actor=BOARD)


def unblock(now: int, state: State) -> Step | None:
    """The step of a blocked item whose last dependency may be done now; None if it still waits."""
    return settle(now, state) if state.item.status == BLOCKED else None


def block(now: int, state: State) -> Step | None:
    """The step of an item that waits again for a dependency which was done and has been reopened; None if nothing
    changes."""
    if not table.allowed("settle", state.item.status) or state.item.status == BLOCKED or not state.blockers:
        return None
    data = {"blocked_by": [blocker.item for blocker in state.blockers]}
    return step(state, kind="blocked", at=now, status=BLOCKED, actor=BOARD, data=data)
