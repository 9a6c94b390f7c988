"""Bringing an item up to date with the clock: an expired claim, a time that has come, an offer nobody accepted.

Whoever asks for an item does that first, so nothing depends on a daemon.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.rules import ending, queueing, resting
from dibs.rules.decision import State, Step

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


def _overdue(now: int, state: State, settings: Settings) -> Step | None:
    item, claim = state.item, state.claim
    if claim is not None:
        return ending.expire(now, state, settings) if claim.expires_at <= now else None
    if item.offer_expires_at is not None and item.offer_expires_at <= now:
        return queueing.lapse(now, state)
    return resting.settle(now, state)
