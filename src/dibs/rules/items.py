"""What people do to items: add, edit, try again."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.model import READY, Event, Item, NewItem
from dibs.rules import table
from dibs.rules.decision import State, Step, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The part of an item that people write; `added` tells all of it, `edited` what changed.
CONTENT = tuple(name for name in NewItem._fields if name != "id")


def add(now: int, new: NewItem, *, actor: str, token_floor: int) -> Step:
    """A new item, ready to be claimed. Its tokens start above every token the board has forgotten."""
    content = {name: getattr(new, name) for name in CONTENT}
    content["action"] = content["action"] or new.type
    item = Item(
        id=new.id,
        **content,
        status=READY,
        created_by=actor,
        created_at=now,
        updated_at=now,
        attempts=0,
        strikes=0,
        token=token_floor,
        revision=1,
    )
    event = Event(
        item=new.id, number=1, kind="added", at=now, status=READY, token=token_floor, actor=actor, data=content
    )
    return Step(item=item, claim=None, run=None, event=event)


def same(new: NewItem, old: Item) -> bool:
    """Whether adding `new` again says nothing that the board does not already have."""
    return all(
        getattr(new, name) == getattr(old, name) or (name == "action" and not new.action and old.action == old.type)
        for name in CONTENT
    )


def taken(new: NewItem) -> Invalid:
    return Invalid(f"the id {new.id} is taken by an item with other content", field="id", item=new.id)


def edit(now: int, state: State, changes: dict[str, Any], *, actor: str) -> Step | None:
    """The item with other content; None when the changes change nothing."""
    old = state.item
    if "type" in changes and "action" not in changes and old.action == old.type:
        changes = {**changes, "action": changes["type"]}
    real = {name: value for name, value in changes.items() if getattr(old, name) != value}
    if not real:
        return None
    return step(
        state,
        kind="edited",
        at=now,
        status=old.status,
        actor=actor,
        claim=state.claim,
        data=real,
        **real,
    )


def retry(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    """A failed item is ready again, its strikes forgiven."""
    table.require("retry", state.item)
    data = {"reason": reason, "strikes": 0}
    return step(state, kind="retried", at=now, status=READY, actor=actor, data=data, strikes=0)
