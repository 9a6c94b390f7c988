"""The transition table, as data: which verb moves an item from which status to which.

Every rule calls `require`, the conformance suite tries every verb in every status on every store, and docs/protocol.md
shows the same table. A verb that returns an item to the board lists all of `RESTING`, because `rest` chooses among
them: waiting for approval, blocked, scheduled, or ready.
"""

from __future__ import annotations

from dibs.errors import ItemNotClaimable
from dibs.model import (
    BLOCKED,
    CANCELLED,
    DONE,
    FAILED,
    IN_PROGRESS,
    PARKED,
    PENDING_APPROVAL,
    READY,
    REJECTED,
    SCHEDULED,
    Item,
)

#: The statuses of an item that is neither claimed nor ended nor parked.
RESTING = (PENDING_APPROVAL, BLOCKED, SCHEDULED, READY)

#: The key of a payload for the state of the item's subject elsewhere, such as that of an issue; see `over`.
EXTERNAL = "external"

#: verb -> status before -> the statuses it may lead to.
TRANSITIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "settle": {BLOCKED: (SCHEDULED, READY), SCHEDULED: (BLOCKED, READY), READY: (BLOCKED,)},
    "edit": dict.fromkeys(RESTING, RESTING)
    | {status: (status,) for status in (IN_PROGRESS, PARKED, DONE, FAILED, REJECTED, CANCELLED)},
    "claim": {READY: (IN_PROGRESS,), PARKED: (IN_PROGRESS,)},
    "release": {IN_PROGRESS: (*RESTING, PARKED, CANCELLED)},
    "hand": {IN_PROGRESS: (IN_PROGRESS,)},
    "expire": {IN_PROGRESS: (*RESTING, FAILED, CANCELLED)},
    "owner_died": {IN_PROGRESS: (*RESTING, FAILED, CANCELLED)},
    "force_release": {IN_PROGRESS: (*RESTING, CANCELLED)},
    "done": {IN_PROGRESS: (DONE, PENDING_APPROVAL)},
    "fail": {IN_PROGRESS: (*RESTING, FAILED, CANCELLED)},
    "submit": {IN_PROGRESS: (PENDING_APPROVAL,)},
    "reject": {IN_PROGRESS: (REJECTED,), PENDING_APPROVAL: (REJECTED,)},
    "approve": {PENDING_APPROVAL: (BLOCKED, SCHEDULED, READY, DONE)},
    "send_back": {PENDING_APPROVAL: (BLOCKED, SCHEDULED, READY)},
    "park": dict.fromkeys(RESTING, (PARKED,)),
    "unpark": {PARKED: RESTING},
    "retry": {FAILED: RESTING},
    "reopen": dict.fromkeys((DONE, CANCELLED, REJECTED), RESTING),
    "cancel": dict.fromkeys((*RESTING, IN_PROGRESS, PARKED), (CANCELLED,)),
}


def allowed(verb: str, status: str) -> bool:
    return status in TRANSITIONS[verb]


def require(verb: str, item: Item) -> None:
    """Refuse a verb that is not allowed in the item's status."""
    if not allowed(verb, item.status):
        *others, last = TRANSITIONS[verb]
        needed = f"{', '.join(others)} or {last}" if others else last
        raise ItemNotClaimable(
            f"{item.id} is {item.status}; {verb} is for an item that is {needed}",
            item=item.id,
            status=item.status,
            why=f"{verb} needs {needed}",
        )


def over(item: Item) -> str | None:
    """Why a claim of the item that ends without a result cancels it: its issue was closed while it was held."""
    external = item.payload.get(EXTERNAL)
    found = external.get("over") if isinstance(external, dict) else None
    return found if found and isinstance(found, str) else None


def rest(item: Item, now: int, *, blocked: bool) -> str:
    """The status of this item while no session holds it."""
    if item.needs_approval:
        return PENDING_APPROVAL
    if blocked:
        return BLOCKED
    return SCHEDULED if item.not_before is not None and item.not_before > now else READY
