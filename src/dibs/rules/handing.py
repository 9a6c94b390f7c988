"""Handing a claim over: it ends, and the other session claims the item in the same transaction."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.model import READY, Claim, Session
from dibs.rules import claiming, ending, table
from dibs.rules.decision import State, Step


def hand(now: int, state: State, held: Claim, target: Session, *, reason: str | None) -> Step:
    """The step that ends the claim for `target`. Nobody is offered the item in between, so its queue stays as it is.

    The other session is given the item only as if it claimed it: one that would wait for something is not handed over.
    """
    if target.id == held.session:
        raise Invalid(f"session {target.id} holds {held.item} itself; name another session", field="to", item=held.item)
    step = ending.hand(now, state, held, to=target.id, reason=reason)
    if table.rest(step.item, now, blocked=bool(state.blockers)) != READY:
        raise claiming.not_claimable(now, step.after(state))
    return step
