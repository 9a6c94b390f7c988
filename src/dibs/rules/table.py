"""The transition table, as data: which verb takes an item from which status to which.

Every rule goes through `require`, the conformance suite walks every verb over every status on every store, and
docs/protocol.md draws the same table. Where an item comes to rest (waiting for approval, for its dependencies, for its
time, or ready) depends on the item, so the verbs that let go of it list all of `RESTING`.
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

#: Where an item that nobody holds, that is not ended and not parked, can be.
RESTING = (PENDING_APPROVAL, BLOCKED, SCHEDULED, READY)

#: verb -> status before -> the statuses it may lead to.
TRANSITIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "settle": {BLOCKED: (SCHEDULED, READY), SCHEDULED: (BLOCKED, READY)},
    "edit": dict.fromkeys(RESTING, RESTING)
    | {status: (status,) for status in (IN_PROGRESS, PARKED, DONE, FAILED, REJECTED, CANCELLED)},
    "claim": {READY: (IN_PROGRESS,), PARKED: (IN_PROGRESS,)},
    "release": {IN_PROGRESS: (*RESTING, PARKED)},
    "expire": {IN_PROGRESS: (*RESTING, FAILED)},
    "owner_died": {IN_PROGRESS: (*RESTING, FAILED)},
    "force_release": {IN_PROGRESS: RESTING},
    "done": {IN_PROGRESS: (DONE,)},
    "fail": {IN_PROGRESS: (*RESTING, FAILED)},
    "submit": {IN_PROGRESS: (PENDING_APPROVAL,)},
    "reject": {IN_PROGRESS: (REJECTED,), PENDING_APPROVAL: (REJECTED,)},
    "approve": {PENDING_APPROVAL: (BLOCKED, SCHEDULED, READY, DONE)},
    "send_back": {PENDING_APPROVAL: (BLOCKED, SCHEDULED, READY)},
    "park": dict.fromkeys(RESTING, (PARKED,)),
    "unpark": {PARKED: RESTING},
    "retry": {FAILED: RESTING},
    "cancel": dict.fromkeys((*RESTING, IN_PROGRESS, PARKED), (CANCELLED,)),
}


def allowed(verb: str, status: str) -> bool:
    return status in TRANSITIONS[verb]


def require(verb: str, item: Item) -> None:
    """Refuse a verb that the item's status does not know, naming the statuses that would be right."""
    if not allowed(verb, item.status):
        needed = " or ".join(TRANSITIONS[verb])
        raise ItemNotClaimable(
            f"{item.id} is {item.status}; {verb} needs it {needed}",
            item=item.id,
            status=item.status,
            why=f"{verb} needs {needed}",
        )
