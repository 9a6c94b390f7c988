"""Bringing an item up to date with the clock: an expired claim, a time that has come, an offer nobody accepted.

Every verb that asks for an item does that first, so nothing depends on a daemon. A read does it without writing.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.rules import ending, queueing, resting
from dibs.rules.decision import State, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from dibs.model import Ticket

#: Expiry, falling due and a queue of dead waiters can follow one another; more than this in one instant is a mistake.
STEPS_MAX = 10_000


def freshen(now: int, state: State, settings: Settings) -> tuple[list[Step], State]:
    """The steps that time has made due for this item, and its state after them."""
    steps: list[Step] = []
    while len(steps) < STEPS_MAX:
        move = _overdue(now, state, settings)
        if move is None:
            return steps, state
        for one in queueing.follow(now, state, move, settings):
            steps.append(one)
            state = one.after(state)
    raise AssertionError(f"{state.item.id} does not come to rest")


def present(now: int, state: State, dead: Collection[str], settings: Settings) -> tuple[State, tuple[Ticket, ...]]:
    """The state that a claim at this instant would find, once it has recorded what time has done and ended the
    sessions in `dead`, whose owner processes are dead; and the tickets that were closed on the way.

    Nothing is recorded, so revision and time of change stay those of the last event, and an expired run ended when its
    claim expired: a reader who asks twice reads the same.
    """
    stored = state
    steps, state = freshen(now, state, settings)
    if stored.claim is not None and state.claim is None and state.run is not None:
        state = state.replace(run=state.run.replace(ended_at=stored.claim.expires_at))
    closed = [ticket for one in steps for ticket in one.closed]
    if state.claim is not None and state.claim.session in dead:
        for one in queueing.follow(now, state, ending.owner_died(now, state, settings), settings):
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


def _overdue(now: int, state: State, settings: Settings) -> Step | None:
    item, claim = state.item, state.claim
    if claim is not None:
        return ending.expire(now, state, settings) if claim.expires_at <= now else None
    if item.offer_expires_at is not None and item.offer_expires_at <= now:
        return queueing.lapse(now, state)
    return resting.settle(now, state)
