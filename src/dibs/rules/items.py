"""What people do to items: add, edit, park, retry, reopen; and changes that were made without a verb (`found`)."""

from __future__ import annotations

from dibs.errors import DibsError, Forbidden, Invalid, ItemChanged, ItemNotClaimable
from dibs.model import EDITABLE, ENDED, FAILED, IN_PROGRESS, PARKED, PENDING_APPROVAL, Event, Item, NewItem
from dibs.model.item_fields import FIELDS
from dibs.rules import table
from dibs.rules.decision import State, Step, step
from dibs.rules.refusals import holder as holder_fact
from dibs.rules.resources import busy, conflict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from dibs.model import Blocker, Claim
    from dibs.rules.resources import Hold

#: The fields that people write: the event `added` has all of them, `edited` those that changed.
CONTENT = tuple(name for name in NewItem._fields if name != "id")
#: What every item begins with.
AT_FIRST: dict[str, Any] = {
    **{"approved": False, "attempts": 0, "strikes": 0, "failures": 0, "offered_to": None, "offer_expires_at": None},
}
#: Fields that an approval covers: editing one withdraws the approval.
APPROVED_CONTENT = frozenset(name for name, field in FIELDS.items() if field.is_approved)
#: Fields that cannot change while the item is claimed, because the claim was decided on them.
HELD_CONTENT = frozenset(name for name, field in FIELDS.items() if field.is_held)


def add(now: int, new: NewItem, *, actor: str, token_floor: int, blockers: Sequence[Blocker] = ()) -> Step:
    """A new item. Its tokens start above every token of a pruned item."""
    content = content_of(new)
    item = Item(
        id=new.id,
        **content,
        **AT_FIRST,
        status="",
        created_by=actor,
        created_at=now,
        updated_at=now,
        token=token_floor,
        revision=1,
    )
    item = item.replace(status=table.rest(item, now, blocked=bool(blockers)))
    event = Event(
        item=new.id, number=1, kind="added", at=now, status=item.status, token=token_floor, actor=actor, data=content
    )
    return Step(item=item, claim=None, run=None, event=event)


def is_same(new: NewItem, old: Item, added: Event) -> bool:
    """Whether `new` has the content that the item was added with (the event `added`) or has now."""
    content = content_of(new)
    # An event of an older version lacks the newest fields, and one of a newer version has others.
    data = {name: value for name, value in (NewItem.defaults() | added.data).items() if name in content}
    as_added = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return content == as_added or all(getattr(old, name) == value for name, value in content.items())


def content_of(new: NewItem) -> dict[str, Any]:
    """The content of a new item, with the default of its action."""
    return {name: getattr(new, name) for name in CONTENT} | {"action": new.action or new.type}


def id_taken(new: NewItem, old: Item) -> Invalid:
    differs = [name for name, value in content_of(new).items() if getattr(old, name) != value]
    return Invalid(
        f"{new.id} exists already and differs in {', '.join(differs)}; choose another id, or edit that item",
        field="id",
        item=new.id,
        differs=differs,
    )


def subject_taken(old: Item) -> Invalid:
    return Invalid(
        f"{old.id} has the subject {old.subject} already; give it another one first: dibs edit {old.id} --subject ''",
        field="subject",
        item=old.id,
    )


def subject_moved(item: Item, subject: str) -> ItemChanged:
    """The item was found by a subject that it has no more."""
    return ItemChanged(
        f"{item.id} is no longer the item of {subject}; claim the subject again",
        item=item.id,
        status=item.status,
        revision=item.revision,
    )


def not_added(refusal: DibsError) -> DibsError:
    """The refusal of the claim of a new item, which is therefore not added."""
    refusal.message += "; it was not added"
    refusal.facts.update(item=None, added=False)
    return refusal


def require_revision(item: Item, revision: int | None, last: Event | None) -> None:
    """Refuse if the item is not at the revision that the caller read; `last` is the event of the current revision."""
    if revision is None or revision == item.revision:
        return
    change = {} if last is None else {"changed_by": last.actor, "changed_at": last.at, "change": last.kind}
    latest = "" if last is None else f" ({last.kind.replace('_', ' ')} by {last.actor})"
    raise ItemChanged(
        f"{item.id} is at revision {item.revision}{latest}, not {revision}; read it again with: dibs show {item.id}",
        item=item.id,
        status=item.status,
        revision=item.revision,
        **change,
    )


def with_and_without(old: Sequence[str], add: Sequence[str], remove: Sequence[str]) -> tuple[str, ...]:
    """A list of names after others were added to its end and some were removed."""
    return tuple(name for name in dict.fromkeys((*old, *add)) if name not in remove)


def values_before(old: Item, new: Item) -> dict[str, Any]:
    """The old values of what an edit changed: content, approval, status."""
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
    holder: Claim | None = None,
    holds: Sequence[Hold] = (),
) -> Step | None:
    """Change the content; None if nothing changes. An edit of approved content withdraws the approval.

    `relabel`: the caller may change what is for admins to change. `blockers` are the open dependencies after a change
    of `depends_on`. `holder` is the claim of the session that edits the item as its holder, and may add resources that
    are not among the `holds` of other sessions.
    """
    old = state.item
    if "type" in changes and "action" not in changes and old.action == old.type:
        changes = {**changes, "action": changes["type"]}
    real = {name: value for name, value in changes.items() if getattr(old, name) != value}
    if not real:
        return None
    if not relabel:
        _refuse_relabelling(old, real)
    _refuse_while_claimed(state, real, holder, holds)
    changed = dict(real)
    if old.approved and _covered(old, real):
        changed.update(needs_approval=True, approved=False)
    status = old.status
    if status in table.RESTING:
        open_now = state.blockers if blockers is None else blockers
        status = table.rest(old.replace(**changed), now, blocked=bool(open_now))
    return step(
        state,
        kind="edited",
        at=now,
        status=status,
        actor=actor,
        claim=state.claim,
        session=None if holder is None else holder.session,
        agent=None if holder is None else holder.agent,
        data=real,
        **changed,
    )


def park(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    """Set aside an unclaimed item: `next` skips it, a claim by id takes it."""
    table.require("park", state.item)
    return step(state, kind="parked", at=now, status=PARKED, actor=actor, data={"reason": reason})


def unpark(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    table.require("unpark", state.item)
    status = table.rest(state.item, now, blocked=bool(state.blockers))
    return step(state, kind="unparked", at=now, status=status, actor=actor, data={"reason": reason})


def retry(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    """Make a failed item claimable again, without its strikes and failures."""
    table.require("retry", state.item)
    changes: dict[str, Any] = {"strikes": 0, "failures": 0, "not_before": None}
    status = table.rest(state.item.replace(**changes), now, blocked=bool(state.blockers))
    return step(state, kind="retried", at=now, status=status, actor=actor, data={"reason": reason}, **changes)


def reopen(
    now: int, state: State, *, actor: str, reason: str | None, token_floor: int, keeps_approval: bool = False
) -> Step:
    """Return an ended item to the board, without its strikes and failures. Its next claim has a token above all that
    were given before, also before a restore, which leaves the tokens of ended items as they are.

    An approval was for the work that has ended, so it is withdrawn. The item waits for another one, unless its result
    is reviewed anyway. `keeps_approval`: its file says that it is approved.
    """
    item = state.item
    if item.status == FAILED:
        raise ItemNotClaimable(
            f"{item.id} is failed; try it again with: dibs retry {item.id}",
            item=item.id,
            status=FAILED,
            why="a failed item is retried",
        )
    table.require("reopen", item)
    changes: dict[str, Any] = {"strikes": 0, "failures": 0}
    if item.approved and not keeps_approval:
        changes.update(approved=False, needs_approval=not item.review)
    status = table.rest(item.replace(**changes), now, blocked=bool(state.blockers))
    token = max(item.token, token_floor)
    return step(
        state, kind="reopened", at=now, status=status, actor=actor, data={"reason": reason}, token=token, **changes
    )


def require_unused(item: Item, dependents: Iterable[State]) -> None:
    """Refuse to reopen an item while one that depends on it is held, or has ended: it was done on the strength of the
    item, or was given up."""
    for state in dependents:
        other, claim = state.item, state.claim
        if other.status != IN_PROGRESS and other.status not in ENDED:
            continue
        facts: dict[str, Any] = {"dependent": other.id}
        if claim is not None:
            why = f"{other.id} depends on it and is held by {claim.agent} (session {claim.session})"
            what, facts["holder"] = "wait for its end", holder_fact(claim)
        else:
            why = f"{other.id} depends on it and is {other.status}"
            what = f"reopen {other.id} first"
        raise ItemNotClaimable(
            f"{item.id} cannot be reopened: {why}; {what}, or: dibs edit {other.id} --remove-needs {item.id}",
            item=item.id,
            status=item.status,
            why=why,
            **facts,
        )


def without_over(item: Item) -> dict[str, Any] | None:
    """The payload of an item that is reopened although its subject is over elsewhere: it is not cancelled again when a
    holder lets go of it. None if nothing changes."""
    if table.over(item) is None:
        return None
    external = {name: value for name, value in item.payload[table.EXTERNAL].items() if name != "over"}
    return {**item.payload, table.EXTERNAL: external}


def found(
    now: int,
    state: State,
    *,
    status: str,
    actor: str,
    token: int | None = None,
    runs: tuple[int, ...] = (),
    void_from: int | None = None,
    **changes: Any,
) -> Step | None:
    """Record that an unclaimed item was changed without a verb: for example, its file was moved or edited in a vault.
    None if nothing changed. The token never falls, so that a token seen in a file is not given again.

    `runs` are the tokens of earlier runs that only the file shows. With `void_from`, a clone gave the tokens from there
    on and its hub never confirmed them: they are void, and the item continues from the token before.
    """
    assert state.claim is None, "a verb ends the claim first"
    item = state.item
    if status in table.RESTING:
        needs = status == PENDING_APPROVAL or changes.get("needs_approval", False)
        changes["needs_approval"] = needs
        status = table.rest(item.replace(needs_approval=needs), now, blocked=bool(state.blockers))
    changes["token"] = max(item.token, item.token if token is None else token) if void_from is None else void_from - 1
    real = {name: value for name, value in changes.items() if getattr(item, name) != value}
    if not real and status == item.status and not runs and void_from is None:
        return None
    data: dict[str, Any] = {"attempts": real["attempts"]} if "attempts" in real else {}
    if runs:
        data["runs"] = list(runs)
    if void_from is not None:
        data["void_from"] = void_from
    return step(state, kind="found", at=now, status=status, actor=actor, data=data, **real)


def refuse_invented(new: Mapping[str, Any]) -> None:
    """Refuse content of a new item that only an admin may write, as `edit` does without `relabel`."""
    payload = new.get("payload")
    if isinstance(payload, dict) and table.EXTERNAL in payload:
        raise Forbidden(
            f"the payload's {table.EXTERNAL} is what another system says; only an admin can write it", field="payload"
        )


def _covered(item: Item, real: dict[str, Any]) -> frozenset[str]:
    """The changed fields that an approval covers. It does not cover the payload's `external`: what happens to an issue
    after the approval has to be recorded, also while the item is held, and is no part of the work."""
    payload = real.get("payload")
    is_external = payload is not None and _without_external(payload) == _without_external(item.payload)
    return APPROVED_CONTENT.intersection(real) - ({"payload"} if is_external else set())


def _without_external(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name != table.EXTERNAL}


def _refuse_relabelling(item: Item, real: dict[str, Any]) -> None:
    for name in real:
        if decided := FIELDS[name].decides:
            raise Forbidden(
                f"the {name} of {item.id} decides {decided}; only an admin can change it",
                item=item.id,
                field=name,
                action=item.action,
            )
    if "payload" in real and item.payload.get(table.EXTERNAL) != real["payload"].get(table.EXTERNAL):
        raise Forbidden(
            f"the payload's {table.EXTERNAL} of {item.id} is what another system says; only an admin can change it",
            item=item.id,
            field="payload",
            action=item.action,
        )
    if "subject" in real and table.EXTERNAL in item.payload:
        # Without its subject, the item would not follow the other system, and another one could take its place.
        raise Forbidden(
            f"{item.id} follows its subject, {item.subject}; only an admin can change that",
            item=item.id,
            field="subject",
            action=item.action,
        )


def _refuse_while_claimed(
    state: State, real: dict[str, Any], holder: Claim | None = None, holds: Sequence[Hold] = ()
) -> None:
    item, claim = state.item, state.claim
    if claim is None:
        return
    fixed = HELD_CONTENT | (_covered(item, real) if item.approved else frozenset())
    resources = real.get("resources")
    if holder is not None and resources and not item.approved and set(item.resources) <= set(resources):
        _refuse_busy(item, resources, holder, holds)
        fixed -= {"resources"}
    for name in real:
        if name in fixed:
            but = "; its holder can only add some" if name == "resources" and not item.approved else ""
            raise Invalid(
                f"{name} of {item.id} cannot change while {claim.agent} (session {claim.session}) holds it{but}",
                field=name,
                item=item.id,
                holder=holder_fact(claim),
            )


def _refuse_busy(item: Item, resources: Sequence[str], holder: Claim, holds: Sequence[Hold]) -> None:
    new = tuple(one for one in resources if one not in item.resources)
    held = conflict(item.replace(resources=new), holds, holder.session)
    if held is not None:
        raise busy(item.id, held)
