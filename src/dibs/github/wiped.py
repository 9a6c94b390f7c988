"""An item whose payload somebody has replaced without its `external`: what GitHub said, and what was written there.

`dibs edit ITEM --payload` replaces the payload as a whole. What another system says is not the editor's to forget:
without it, a comment would be made twice, and a label would stay for ever. The log of the item has it.
"""

from __future__ import annotations

from dibs.errors import ItemChanged, ItemNotFound
from dibs.github.ends import AGENT
from dibs.rules.table import EXTERNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board
    from dibs.model import Event, Item


def restored(board: Board, item: Item) -> Item:
    """The item with its `external`."""
    if EXTERNAL in item.payload:
        return item
    external = _last(board, item.id)
    if external is None:
        return item
    try:
        board.edit(item.id, payload={**item.payload, EXTERNAL: external}, revision=item.revision, actor=AGENT)
    except ItemChanged:
        pass  # another process was faster
    return board.get(item.id).item


def is_wiped(event: Event) -> bool:
    """Whether the payload may have been replaced without what other systems say."""
    payload = event.data.get("payload")
    return event.kind == "edited" and isinstance(payload, dict) and EXTERNAL not in payload


def _last(board: Board, item: str) -> dict[str, Any] | None:
    """The `external` of the last payload that had one."""
    try:
        events = board.log(item)
    except ItemNotFound:
        return None
    for event in reversed(events):
        payload = event.data.get("payload") if event.kind in ("added", "edited") else None
        external = payload.get(EXTERNAL) if isinstance(payload, dict) else None
        if isinstance(external, dict):
            return external
    return None
