"""Replay of an item's history into the item: `doctor` compares it with the stored row, and who follows a board needs to
read no item again."""

from __future__ import annotations

from dibs.model import EDITABLE, READY, Event, Item
from dibs.rules.decision import EVENT_FIELDS
from dibs.rules.items import CONTENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from typing import Any, TypeVar

    from dibs.model.dashboard import Brief

    T = TypeVar("T", Item, Brief)


def fold(events: Iterable[Event]) -> Item | None:
    """The item after these events, in order; None without events."""
    item: Item | None = None
    for event in events:
        item = _added(event) if item is None else after(item, event)
    return item


def _added(event: Event) -> Item:
    return Item(
        id=event.item,
        **_values(event, CONTENT),
        approved=False,
        status=event.status,
        created_by=event.actor,
        created_at=event.at,
        updated_at=event.at,
        attempts=0,
        strikes=0,
        failures=0,
        token=event.token,
        revision=event.number,
        offered_to=None,
        offer_expires_at=None,
    )


def after(item: T, event: Event) -> T:
    """The item after its next event; one in brief keeps the fields that it has."""
    changes = _values(event, EVENT_FIELDS)
    attempts = item.attempts + (event.kind == "claimed")
    if event.kind == "found":
        attempts = event.data.get("attempts", attempts)
    if event.kind == "edited":
        changes.update(_values(event, [name for name in EDITABLE if hasattr(item, name)]))
    if event.status != READY:
        changes.update(offered_to=None, offer_expires_at=None)
    return item.replace(
        status=event.status,
        updated_at=event.at,
        revision=event.number,
        token=event.token,
        attempts=attempts,
        **changes,
    )


def _values(event: Event, names: Container[str]) -> dict[str, Any]:
    found = event.data.items()
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found if name in names}
