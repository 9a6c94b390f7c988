"""Where an item stays while nobody holds it.

`rest` is the one answer to "and now?": waiting for approval, blocked by a dependency, scheduled for later, or ready.
"""

from __future__ import annotations

from dibs.model import BLOCKED, PENDING_APPROVAL, READY, SCHEDULED, Item
from dibs.rules import table
from dibs.rules.decision import BOARD, State, Step, step


def rest(item: Item, now: int, *, blocked: bool) -> str:
    """The status of this item when nobody holds it."""
    if item.needs_approval:
        return PENDING_APPROVAL
    if blocked:
        return BLOCKED
    return SCHEDULED if item.not_before is not None and item.not_before > now else READY


def settle(now: int, state: State) -> Step | None:
    """The step of a blocked or scheduled item to where it belongs by now; None if it is there."""
    item = state.item
    status = rest(item, now, blocked=bool(state.blockers))
    if not table.allowed("settle", item.status) or status == item.status:
        return None
    kind = "unblocked" if item.status == BLOCKED else "due"
    return step(state, kind=kind, at=now, status=status, actor=BOARD)
