"""The transition table, as data: which verb takes an item from which status to which.

Every rule goes through `require`, the conformance suite walks every verb over every status on every
store, and docs/protocol.md draws the same table.
"""

from __future__ import annotations

from dibs.errors import ItemNotClaimable
from dibs.model import CANCELLED, DONE, FAILED, IN_PROGRESS, READY, Item

#: verb -> status before -> the statuses it may lead to.
TRANSITIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "claim": {READY: (IN_PROGRESS,)},
    "release": {IN_PROGRESS: (READY,)},
    "expire": {IN_PROGRESS: (READY, FAILED)},
    "owner_died": {IN_PROGRESS: (READY, FAILED)},
    "force_release": {IN_PROGRESS: (READY,)},
    "done": {IN_PROGRESS: (DONE,)},
    "fail": {IN_PROGRESS: (FAILED,)},
    "retry": {FAILED: (READY,)},
    "cancel": {READY: (CANCELLED,), IN_PROGRESS: (CANCELLED,)},
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
