"""An item's history, folded back into the item: what `doctor` compares with the stored row."""

from __future__ import annotations

from dibs.model import EDITABLE, Event, Item
from dibs.rules.items import CONTENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def fold(events: Iterable[Event]) -> Item | None:
    """The item that these events, in order, amount to; None for no events."""
    item: Item | None = None
    for event in events:
        item = _born(event) if item is None else _after(item, event)
    return item


def _born(event: Event) -> Item:
    content = {name: event.data[name] for name in CONTENT}
    content["labels"] = tuple(content["labels"])
    return Item(
        id=event.item,
        **content,
        status=event.status,
        created_by=event.actor,
        created_at=event.at,
        updated_at=event.at,
        attempts=0,
        strikes=0,
        token=event.token,
        revision=event.number,
    )


def _after(item: Item, event: Event) -> Item:
    edits = {name: event.data[name] for name in EDITABLE if event.kind == "edited" and name in event.data}
    if "labels" in edits:
        edits["labels"] = tuple(edits["labels"])
    return item.replace(
        status=event.status,
        updated_at=event.at,
        revision=event.number,
        token=event.token,
        attempts=item.attempts + (event.kind == "claimed"),
        strikes=event.data.get("strikes", item.strikes),
        **edits,
    )
