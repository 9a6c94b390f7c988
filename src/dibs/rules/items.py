"""What people do to items: add, edit, set aside, try again."""

from __future__ import annotations

from dibs.errors import Forbidden, Invalid, ItemChanged
from dibs.model import EDITABLE, PARKED, Event, Item, NewItem
from dibs.rules import fencing, table
from dibs.rules.decision import State, Step, step
from dibs.rules.resting import rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.model import Blocker

#: The part of an item that people write; `added` tells all of it, `edited` what changed.
CONTENT = tuple(name for name in NewItem._fields if name != "id")
#: What an approval is about: editing it asks for approval again.
APPROVED_CONTENT = frozenset({"title", "body", "payload", "type", "action", "resources"})
#: What policy goes by: which agents are given the item, and which of them only draft.
LABELS = ("type", "action")
#: What a claim was decided on: not to be edited under its holder.
HELD_CONTENT = frozenset({"project", "type", "action", "resources"})


def add(now: int, new: NewItem, *, actor: str, token_floor: int, blockers: Sequence[Blocker] = ()) -> Step:
    """A new item. Its tokens start above every token the board has forgotten."""
    content = content_of(new)
    item = Item(
        id=new.id,
        **content,
        approved=False,
        status="",
        created_by=actor,
        created_at=now,
        updated_at=now,
        attempts=0,
        strikes=0,
        failures=0,
        token=token_floor,
        revision=1,
        offered_to=None,
        offer_expires_at=None,
    )
    item = item.replace(status=rest(item, now, blocked=bool(blockers)))
    event = Event(
        item=new.id, number=1, kind="added", at=now, status=item.status, token=token_floor, actor=actor, data=content
    )
    return Step(item=item, claim=None, run=None, event=event)


def same(new: NewItem, old: Item, added: Event) -> bool:
    """Whether adding `new` again says what was said at first (in the event `added`), or what the item says now."""
    content = content_of(new)
    as_added = {name: tuple(value) if isinstance(value, list) else value for name, value in added.data.items()}
    return content == as_added or all(getattr(old, name) == value for name, value in content.items())


def content_of(new: NewItem) -> dict[str, Any]:
    """What people said of a new item, the default of its action filled in."""
    return {name: getattr(new, name) for name in CONTENT} | {"action": new.action or new.type}


def taken(new: NewItem, old: Item) -> Invalid:
    """The refusal of another item under an id that is there already."""
    differs = [name for name, value in content_of(new).items() if getattr(old, name) != value]
    return Invalid(
        f"{new.id} is there already and differs in {', '.join(differs)}; choose another id, or edit that item",
        field="id",
        item=new.id,
        differs=differs,
    )


def require_revision(item: Item, revision: int | None, last: Event | None) -> None:
    """Refuse to decide about another revision than the one that was read; `last` is the event that made the current
    one. Without a revision, the item is decided about as it is."""
    if revision is None or revision == item.revision:
        return
    change = {} if last is None else {"changed_by": last.actor, "changed_at": last.at, "change": last.kind}
    latest = "" if last is None else f" ({last.kind.replace('_', ' ')} by {last.actor})"
    raise ItemChanged(
        f"{item.id} is at revision {item.revision}{latest}, not {revision}; look again with: dibs show {item.id}",
        item=item.id,
        status=item.status,
        revision=item.revision,
        **change,
    )


def before(old: Item, new: Item) -> dict[str, Any]:
    """What an edit changed, as it was: content, the approval, and where the item rests."""
    names = (*EDITABLE, "needs_approval", "approved", "status")
    was = {name: getattr(old, name) for name in names if getattr(old, name) != getattr(new, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in was.items()}


def edit(
    now: int,
    state: State,
    changes: dict[str, Any],
    *,
    actor: str,
    relabel: bool = True,
    blockers: Sequence[Blocker] | None = None,
) -> Step | None:
    """The item with other content; None when the changes change nothing.

    `relabel`: the caller may change what policy goes by. `blockers` are the open dependencies that the item has with
    its new `depends_on`. An item that nobody holds moves to where it rests now. Editing what was approved withdraws the
    approval.
    """
    old = state.item
    if "type" in changes and "action" not in changes and old.action == old.type:
        changes = {**changes, "action": changes["type"]}
    real = {name: value for name, value in changes.items() if getattr(old, name) != value}
    if not real:
        return None
    if not relabel:
        _refuse_relabelling(old, real)
    _refuse_under_holder(state, real)
    told = dict(real)
    if old.approved and APPROVED_CONTENT & real.keys():
        told.update(needs_approval=True, approved=False)
    status = old.status
    if status in table.RESTING:
        open_now = state.blockers if blockers is None else blockers
        status = rest(old.replace(**told), now, blocked=bool(open_now))
    return step(
        state,
        kind="edited",
        at=now,
        status=status,
        actor=actor,
        claim=state.claim,
        data=real,
        **told,
    )


def park(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    """Set aside an item that nobody holds; `next` does not hand it out, a claim by id takes it."""
    table.require("park", state.item)
    return step(state, kind="parked", at=now, status=PARKED, actor=actor, data={"reason": reason})


def unpark(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    table.require("unpark", state.item)
    status = rest(state.item, now, blocked=bool(state.blockers))
    return step(state, kind="unparked", at=now, status=status, actor=actor, data={"reason": reason})


def retry(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    """A failed item is to be done again, its strikes and failures forgiven."""
    table.require("retry", state.item)
    changes: dict[str, Any] = {"strikes": 0, "failures": 0, "not_before": None}
    status = rest(state.item.replace(**changes), now, blocked=bool(state.blockers))
    return step(state, kind="retried", at=now, status=status, actor=actor, data={"reason": reason}, **changes)


def _refuse_relabelling(item: Item, real: dict[str, Any]) -> None:
    for name in LABELS:
        if name in real:
            raise Forbidden(
                f"the {name} of {item.id} decides which agents may do it; changing it is for an admin",
                item=item.id,
                field=name,
                action=item.action,
            )


def _refuse_under_holder(state: State, real: dict[str, Any]) -> None:
    item, claim = state.item, state.claim
    if claim is None:
        return
    fixed = HELD_CONTENT | (APPROVED_CONTENT if item.approved else frozenset())
    for name in real:
        if name in fixed:
            raise Invalid(
                f"{name} of {item.id} cannot change while {claim.agent} (session {claim.session}) holds it",
                field=name,
                item=item.id,
                holder=fencing.holder(claim),
            )
