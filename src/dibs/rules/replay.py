"""Replay of an item's history into the item: `doctor` compares it with the stored row, and who follows a board needs to
read no item again."""

from __future__ import annotations

from dibs.model import READY, Event, Item
from dibs.rules.decision import EVENT_FIELDS
from dibs.rules.event_kinds import EVENT_KINDS
from dibs.rules.items import AT_FIRST, CONTENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    from dibs.model.dashboard import Brief

    T = TypeVar("T", Item, Brief)


#: The fields in the data of an event that are the item's. Sets, because the name of each entry is looked up in one.
_ADDED = frozenset(CONTENT)
_DECIDED = frozenset(EVENT_FIELDS)
_CHANGED = {kind.name: frozenset(kind.changes) for kind in EVENT_KINDS}


def fold(events: Iterable[Event]) -> Item | None:
    """The item after these events, in order; None without events."""
    fields: dict[str, Any] = {}
    for event in events:
        if fields:
            _change(fields, event)
        else:
            fields = _added(event)
    return Item(**fields) if fields else None


def after(item: T, event: Event) -> T:
    """The item after its next event; one in brief keeps the fields that it has."""
    fields = item.as_dict()
    _change(fields, event)
    return item.of(fields)


def _added(event: Event) -> dict[str, Any]:
    fields = {
        **Item.defaults(),
        **AT_FIRST,
        "id": event.item,
        "status": event.status,
        "created_by": event.actor,
        "created_at": event.at,
        "updated_at": event.at,
        "token": event.token,
        "revision": event.number,
    }
    for name, value in event.data.items():
        if name in _ADDED:
            fields[name] = tuple(value) if isinstance(value, list) else value
    return fields


def _change(fields: dict[str, Any], event: Event) -> None:
    """What the event changes, of the fields that there are."""
    kind, status = event.kind, event.status
    fields["status"] = status
    fields["updated_at"] = event.at
    fields["revision"] = event.number
    fields["token"] = event.token
    if kind == "claimed":
        fields["attempts"] += 1
    names = _CHANGED.get(kind, _DECIDED)
    for name, value in event.data.items():
        if name in names and name in fields:
            fields[name] = tuple(value) if isinstance(value, list) else value
    if status != READY:
        fields["offered_to"] = fields["offer_expires_at"] = None
