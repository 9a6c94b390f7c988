"""The verbs about items: add, edit, and decisions about them."""

from __future__ import annotations

from dibs import check
from dibs.errors import DibsError, Invalid, ItemNotClaimable
from dibs.model import DONE, ENDED, READY, Added, Blocker, Edited, Ended
from dibs.rules import ending, queueing
from dibs.rules import items as item_rules
from dibs.rules.decision import State
from dibs.rules.resources import with_more
from dibs.store.sql import new_ids, rows
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from typing import Any

    from dibs.model import Claim, Item, NewItem
    from dibs.rules.decision import Step
    from dibs.rules.resources import Hold
    from dibs.store.sql.transaction import Transaction


def add(t: Transaction, items: Sequence[NewItem], *, actor: str) -> tuple[Added, ...]:
    new_ids.lock(t, items)
    statuses = _lock_existing(t, {needs for one in items for needs in one.depends_on})
    token_floor = int(t.scalar("token_floor") or 0)
    given = {one.id for one in items}
    added = [_insert(t, one, actor, token_floor, given, statuses) for one in items]
    # The items may depend on each other in any order, so dependencies are checked at the end.
    new = [item for item, is_new in added if is_new]
    known = statuses.keys() | {item.id for item in new}
    for item in new:
        _require_items(item, item.depends_on, known)
    refuse_cycles(t, new)
    return tuple(_added(t, _make_available(t, item) if is_new else item, existed=not is_new) for item, is_new in added)


def edit(
    t: Transaction,
    item: str,
    changes: Mapping[str, Any],
    *,
    actor: str,
    revision: int | None = None,
    relabel: bool = True,
    add_labels: Sequence[str] = (),
    remove_labels: Sequence[str] = (),
    add_needs: Sequence[str] = (),
    remove_needs: Sequence[str] = (),
    add_resources: Sequence[str] = (),
    session: str | None = None,
    token: int | None = None,
    allow_missing: bool = False,
) -> Edited:
    """`allow_missing`: `depends_on` may name items that do not exist yet, and the item waits for them."""
    changes = dict(changes)
    if session is not None:
        _lock_holder(t, item, session)
    if changes.get("subject") is not None:
        _require_free_subject(t, item, changes["subject"])
    if "depends_on" in changes or add_needs or remove_needs:
        # Dependencies before the item: `done` locks an item before its dependents.
        t.lock("lock_dependencies")
        if add_needs or remove_needs:
            changes |= _merged_needs(t, item, add_needs, remove_needs)
    needs = changes.get("depends_on")
    statuses = _lock_existing(t, needs or ())
    if revision is not None:
        as_read(t, item, revision)
    holder: Claim | None = None
    holds: tuple[Hold, ...] = ()
    if session is None:
        state = t.record_due(item)
    else:
        state, holder = t.fenced(item, session, token)
        actor, holds = holder.agent, t.holds(state.item.project)
        t.touch_session(session)
    if add_labels or remove_labels:
        merged = item_rules.with_and_without(state.item.labels, add_labels, remove_labels)
        changes["labels"] = check.names(merged, "labels")
    if add_resources:
        changes["resources"] = check.resources(with_more(state.item.resources, add_resources))
    open_before = {blocker.item for blocker in state.blockers}
    done_before = [one for one in state.item.depends_on if one not in open_before]
    blockers = None if needs is None else open_dependencies(statuses, needs, done_before)
    step = item_rules.edit(
        t.now, state, changes, actor=actor, relabel=relabel, blockers=blockers, holder=holder, holds=holds
    )
    if step is None:
        return Edited(**state.item.as_dict(), blockers=_blockers(t, state.item))
    last = t.apply_with_effects(state, step)
    if needs is not None:
        if allow_missing:
            missing = json_text.dumps([one.item for one in blockers or ()])
            t.run("put_dependencies", {"item": item, "needs": missing})
        else:
            _require_items(step.item, set(needs) - set(state.item.depends_on), statuses)
        refuse_cycles(t, [step.item])
    before = item_rules.values_before(state.item, last.item)
    return Edited(**last.item.as_dict(), before=before, blockers=_blockers(t, last.item))


def _merged_needs(t: Transaction, item: str, add: Sequence[str], remove: Sequence[str]) -> dict[str, Any]:
    """The change of the item's dependencies, which no other transaction changes now; none if there is no such item."""
    row = t.one("item_by_id", id=item)
    if row is None:
        return {}
    return {"depends_on": check.dependencies(item_rules.with_and_without(rows.item(row).depends_on, add, remove))}


def _lock_holder(t: Transaction, item: str, session: str) -> None:
    """Lock what has to be locked before an item that its holder edits. The item's project is read without a lock: it
    cannot change while the session holds the item, and the session can claim nothing meanwhile."""
    t.lock_session(session)
    row = t.one("item_by_id", id=item)
    if row is not None:
        t.lock("lock_resources", project=rows.item(row).project)


def cancel(t: Transaction, item: str, *, actor: str, reason: str | None = None) -> Item:
    return _apply(t, t.state(item), ending.cancel, actor=actor, reason=reason)


def retry(t: Transaction, item: str, *, actor: str, reason: str | None = None) -> Item:
    # An expiry that is not recorded yet may be the last strike, which fails the item.
    return _apply(t, t.record_due(item), item_rules.retry, actor=actor, reason=reason)


def reopen(t: Transaction, item: str, *, actor: str, reason: str | None = None) -> Item:
    state = t.state(item)
    floor = int(t.scalar("token_floor") or 0)
    asked: dict[str, Any] = {"actor": actor, "reason": reason, "token_floor": floor}
    item_rules.reopen(t.now, state, **asked)  # a refusal about the item itself comes first
    dependents = [id for (id,) in t.all("dependents", needs=item)]
    t.lock_items(dependents)
    try:
        item_rules.require_unused(state.item, map(t.record_due, dependents))
    except ItemNotClaimable as refusal:
        t.refuse(refusal)  # what time has changed of the dependents stays recorded
    payload = item_rules.without_over(state.item)
    if payload is not None:
        edited = item_rules.edit(t.now, state, {"payload": payload}, actor=actor)
        assert edited is not None, "the payload changes"
        t.apply(edited)
        state = edited.after(state)
    return _apply(t, state, item_rules.reopen, **asked)


def park(t: Transaction, item: str, *, actor: str, reason: str | None = None) -> Item:
    # An item whose claim has expired can be parked.
    return _apply(t, t.record_due(item), item_rules.park, actor=actor, reason=reason)


def unpark(t: Transaction, item: str, *, actor: str, reason: str | None = None) -> Item:
    return _apply(t, t.state(item), item_rules.unpark, actor=actor, reason=reason)


def approve(
    t: Transaction,
    item: str,
    *,
    actor: str,
    comment: str | None = None,
    done: bool = False,
    token: int | None = None,
    revision: int | None = None,
) -> Item:
    from dibs.rules import reviewing

    state, draft = as_read(t, item, revision), t.draft(item)
    step = reviewing.approve(t.now, state, draft, actor=actor, comment=comment, done=done, token=token)
    return t.apply_with_effects(state, step).item


def send_back(t: Transaction, item: str, *, actor: str, comment: str, revision: int | None = None) -> Item:
    from dibs.rules import reviewing

    return _apply(t, as_read(t, item, revision), reviewing.send_back, actor=actor, comment=comment)


def reject(
    t: Transaction,
    item: str,
    *,
    reason: str,
    session: str | None = None,
    token: int | None = None,
    revision: int | None = None,
    actor: str,
) -> Item:
    if session is None:
        from dibs.rules import reviewing

        return _apply(t, as_read(t, item, revision), reviewing.reject, actor=actor, reason=reason)
    state, claim = t.fenced(item, session, token)
    t.touch_session(session)
    return t.apply_with_effects(state, ending.reject(t.now, state, claim, reason=reason)).item


def force_release(t: Transaction, item: str, *, actor: str, reason: str, token: int | None = None) -> Ended:
    state = t.record_due(item)
    try:
        step = ending.force_release(t.now, state, actor=actor, reason=reason, token=token)
    except DibsError as refusal:
        t.refuse(refusal)  # an expiry that was just recorded stays
    return t.end(state, step)


def annotate(
    t: Transaction,
    item: str,
    *,
    token: int | None = None,
    links: Mapping[str, Any],
    checks: Mapping[str, Any],
    cost: Mapping[str, Any],
    session: str | None = None,
    agent: str | None = None,
    key: str | None = None,
    actor: str,
) -> Ended:
    from dibs.rules import reviewing
    from dibs.store.sql.session_verbs import find_session

    if session is not None:
        actor = agent = t.session(session).agent
    state = t.record_due(item)
    run = state.run if token is None else t.run_of(item, token)
    given = {name: json_text.as_object(one) for name, one in (("links", links), ("checks", checks), ("cost", cost))}
    if run is not None and key is not None:
        reviewing.require_key(run, find_session(t, run.session), key)
    approved = t.approved_draft(state.item)
    step = reviewing.annotate(
        t.now, state, run, given, token=token, approved=approved, actor=actor, agent=agent, session=session
    )
    if session is not None:
        t.touch_session(session)
    if step is not None:
        t.apply(step)
        state, run = step.after(state), step.run
    assert run is not None
    return Ended(item=state.item, run=run)


def _apply(t: Transaction, state: State, rule: Callable[..., Step], **asked: Any) -> Item:
    return t.apply_with_effects(state, rule(t.now, state, **asked)).item


def as_read(t: Transaction, item: str, revision: int | None) -> State:
    """The item, if it is still at the revision that the caller read. Overdue steps are not recorded before the
    comparison, because reads apply them without a new revision."""
    state = t.state(item)
    row = None if revision is None else t.one("event_of_item", item=item, number=state.item.revision)
    item_rules.require_revision(state.item, revision, None if row is None else rows.event(row))
    return state


def _insert(
    t: Transaction, new: NewItem, actor: str, token_floor: int, given: set[str], statuses: Mapping[str, str]
) -> tuple[Item, bool]:
    """The item, and whether it is new: an item of the same subject, or with the same content, is not added again."""
    known = None if new.subject is None else item_of_subject(t, new.subject)
    if known is not None:
        return known, False
    may_exist = t.has_clones or bool(new.id)
    if not new.id:
        new = new.replace(id=new_ids.choose(t, new.title, given))
    row = t.one("item_by_id", id=new.id) if may_exist else None
    if row is not None:
        old, first = rows.item(row), t.one("event_of_item", item=new.id, number=1)
        assert first is not None, "every item has its first event"
        if not item_rules.is_same(new, old, rows.event(first)):
            raise item_rules.id_taken(new, old)
        return old, False
    blockers = open_dependencies(statuses, new.depends_on)
    step = item_rules.add(t.now, new, actor=actor, token_floor=token_floor, blockers=blockers)
    t.apply(step)
    return step.item, True


def item_of_subject(t: Transaction, subject: str) -> Item | None:
    """The item of this subject. Without one, no other transaction adds it before this one ends."""
    row = t.one("item_of_subject", subject=subject)
    if row is None:
        t.lock("lock_subject", subject=subject)
        row = t.one("item_of_subject", subject=subject)
    row = None if row is None else t.one("item_by_id", id=row[0])
    return None if row is None else rows.item(row)


def _require_free_subject(t: Transaction, item: str, subject: str) -> None:
    known = item_of_subject(t, subject)
    if known is not None and known.id != item:
        raise item_rules.subject_taken(known)


def _added(t: Transaction, item: Item, *, existed: bool) -> Added:
    return Added(**vars(item), existed=existed, blockers=_blockers(t, item))


def _blockers(t: Transaction, item: Item) -> tuple[Blocker, ...]:
    return t.blockers_of(item.id) if item.depends_on else ()


def _make_available(t: Transaction, item: Item) -> Item:
    if item.status != READY:
        return item
    step = queueing.available(t.now, State(item=item), t.settings)  # a new item has no tickets
    t.apply(step)
    return step.item


def open_dependencies(
    statuses: Mapping[str, str], needs: Iterable[str], done_before: Sequence[str] = ()
) -> list[Blocker]:
    """The dependencies that are not done. One without a status was pruned after it was done, if it is in `done_before`;
    otherwise the same call adds it."""
    found = []
    for one in needs:
        if one not in statuses and one in done_before:
            continue
        status = statuses.get(one, READY)
        if status != DONE:
            found.append(Blocker(item=one, status=status, will_move=status not in ENDED))
    return found


def statuses_of(t: Transaction, items: Iterable[str]) -> dict[str, str]:
    """The statuses of those of these items that exist."""
    ids = list(items)
    return dict(t.all("statuses_by_id", items=json_text.dumps(ids))) if ids else {}


def _lock_existing(t: Transaction, items: Iterable[str]) -> dict[str, str]:
    """Lock those of these items that exist, and return their statuses. One that another transaction adds a moment later
    is not locked: it could become done without a look at the item that is to depend on it."""
    existing = statuses_of(t, items)
    t.lock_items(existing)
    return statuses_of(t, existing)


def _require_items(item: Item, named: Iterable[str], existing: Container[str]) -> None:
    for one in named:
        if one not in existing:
            raise Invalid(f"{item.id} depends on {one}, which does not exist", field="depends_on", item=item.id)


def refuse_cycles(t: Transaction, items: Sequence[Item]) -> None:
    """Refuse items that depend on themselves. All are searched at once: a search for each of a thousand items that
    follow one another would take seconds, in which all other writers wait."""
    ids = json_text.dumps([one.id for one in items if one.depends_on])
    # Only what another item needs can be a part of a cycle.
    if ids == "[]" or not t.all("needed_items", items=ids):
        return
    from graphlib import CycleError, TopologicalSorter

    try:
        TopologicalSorter(rows.grouped(t.all("dependencies_below", items=ids))).prepare()
    except CycleError as error:
        cycle = set(error.args[1])
        # Files of a vault can have made a cycle that has none of these items.
        for one in [item for item in items if item.id in cycle] or items:
            _refuse_cycle(t, one)


def _refuse_cycle(t: Transaction, item: Item) -> None:
    if item.depends_on and t.one("in_a_cycle", item=item.id) is not None:
        raise Invalid(
            f"{item.id} would depend on itself through {', '.join(item.depends_on)}", field="depends_on", item=item.id
        )
