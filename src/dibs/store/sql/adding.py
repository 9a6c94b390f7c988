"""Adding and editing items, with what they depend on."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.model import DONE, ENDED, READY, Added, Blocker, Edited
from dibs.rules import items, queueing
from dibs.rules.decision import State
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from dibs.model import Item, NewItem
    from dibs.store.sql.transaction import Transaction


def add(t: Transaction, new: Sequence[NewItem], actor: str) -> tuple[Added, ...]:
    """All of them or none. They may depend on each other in any order, so dependencies are checked at the end."""
    t.lock_items({needs for one in new for needs in one.depends_on} - {one.id for one in new})
    row = t.one("token_floor")
    assert row is not None
    added = [_insert(t, one, actor, row[0]) for one in new]
    for item, is_new in added:
        if is_new and item.depends_on:
            _check_dependencies(t, item, item.depends_on)
            check_circles(t, item)
    return tuple(_answer(t, _free(t, item) if is_new else item, existed=not is_new) for item, is_new in added)


def as_read(t: Transaction, item: str, revision: int | None) -> State:
    """The item as it is stored, which a caller that names a revision has read. Reads apply what time has done without
    counting it, so the revision is compared before that is written down."""
    state = t.state(item)
    row = None if revision is None else t.one("event_of_item", item=item, number=state.item.revision)
    items.require_revision(state.item, revision, None if row is None else rows.event(row))
    return state


def edit(
    t: Transaction,
    item: str,
    changes: dict[str, Any],
    actor: str,
    revision: int | None = None,
    *,
    relabel: bool = True,
    missing: bool = False,
) -> Edited:
    """With `missing`, it may depend on what is not there yet, and waits for that."""
    needs = changes.get("depends_on")
    if needs is not None:
        # What it waits for before itself: the order in which a finish goes from an item to those that wait for it.
        t.lock_dependencies()
        t.lock_items(needs)
    if revision is not None:
        as_read(t, item, revision)
    state = t.fresh(item)
    waited_for = {blocker.item for blocker in state.blockers}
    gone = [one for one in state.item.depends_on if one not in waited_for]
    waits = None if needs is None else open_among(t, needs, before=gone)
    step = items.edit(t.now, state, changes, actor=actor, relabel=relabel, blockers=waits)
    if step is None:
        return Edited(**state.item.as_dict(), blockers=_blockers(t, state.item))
    last = t.carry_out(state, step)
    if needs is not None:
        if missing:
            for one in waits or ():
                t.run("put_dependency", {"item": item, "needs": one.item})
        else:
            _check_dependencies(t, step.item, set(needs) - set(state.item.depends_on))
        check_circles(t, step.item)
    before = items.before(state.item, last.item)
    return Edited(**last.item.as_dict(), before=before, blockers=_blockers(t, last.item))


def _insert(t: Transaction, new: NewItem, actor: str, token_floor: int) -> tuple[Item, bool]:
    """The item's row, and whether it is new: the same item again is no change."""
    row = t.one("item_by_id", id=new.id)
    if row is not None:
        old, first = rows.item(row), t.one("event_of_item", item=new.id, number=1)
        assert first is not None, "history begins with the item"
        if not items.same(new, old, rows.event(first)):
            raise items.taken(new, old)
        return old, False
    waits = open_among(t, new.depends_on) if new.depends_on else ()
    step = items.add(t.now, new, actor=actor, token_floor=token_floor, blockers=waits)
    t.take(step)
    return step.item, True


def _answer(t: Transaction, item: Item, *, existed: bool) -> Added:
    return Added(**item.as_dict(), existed=existed, blockers=_blockers(t, item))


def _blockers(t: Transaction, item: Item) -> tuple[Blocker, ...]:
    return t.blockers_of(item.id) if item.depends_on else ()


def _free(t: Transaction, item: Item) -> Item:
    if item.status != READY:
        return item
    # Nobody can have waited for what was not there.
    step = queueing.available(t.now, State(item=item), t.settings)
    t.take(step)
    return step.item


def open_among(t: Transaction, needs: Iterable[str], before: Sequence[str] = ()) -> list[Blocker]:
    """Of these dependencies, those that are not done. One that is not there yet comes later in the same call; one that
    is gone, but was a dependency `before`, was done when it was pruned."""
    found = []
    for one in needs:
        row = t.one("item_by_id", id=one)
        if row is None and one in before:
            continue
        status = READY if row is None else rows.item(row).status
        if status != DONE:
            found.append(Blocker(item=one, status=status, will_move=status not in ENDED))
    return found


def _check_dependencies(t: Transaction, item: Item, named: Iterable[str]) -> None:
    """Refuse a dependency that nobody knows."""
    for one in named:
        if t.one("item_by_id", id=one) is None:
            raise Invalid(f"{item.id} depends on {one}, which does not exist", field="depends_on", item=item.id)


def check_circles(t: Transaction, item: Item) -> None:
    if item.depends_on and t.one("in_a_cycle", item=item.id) is not None:
        raise Invalid(
            f"{item.id} would depend on itself through {', '.join(item.depends_on)}", field="depends_on", item=item.id
        )
