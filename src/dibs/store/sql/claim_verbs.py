"""The verbs that claim as a part of something larger: `claim_subject` adds an item first, `hand` ends a claim first."""

from __future__ import annotations

from dibs.rules import handing
from dibs.rules.ending import OWNER_DIED
from dibs.rules.items import not_added, subject_moved
from dibs.rules.refusals import session_not_found
from dibs.store.sql import item_verbs, rows
from dibs.store.sql.transaction import Refused
from dibs.system import owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Grant, NewItem
    from dibs.store.sql.transaction import Transaction


def claim_subject(
    t: Transaction,
    new: NewItem,
    *,
    session: str,
    agent: str | None = None,
    ttl_seconds: float | None = None,
) -> Grant:
    assert new.subject is not None, "the board requires a subject"
    adder = t.session(session).agent  # before the lock of the subject
    known = item_verbs.item_of_subject(t, new.subject)
    if known is not None:
        grant = t.claim(known.id, session=session, agent=agent, ttl_seconds=ttl_seconds)
        if grant.item.subject != new.subject:
            raise subject_moved(grant.item, new.subject)
        return grant
    (added,) = item_verbs.add(t, [new], actor=adder)
    try:
        return t.claim(added.id, session=session, agent=agent, ttl_seconds=ttl_seconds)
    except Refused as refused:
        raise not_added(refused.refusal) from refused


def hand(
    t: Transaction,
    item: str,
    *,
    to: str,
    session: str,
    token: int | None = None,
    reason: str | None = None,
    ttl_seconds: float | None = None,
) -> Grant:
    _lock(t, item, session, to)
    state, held = t.fenced(item, session, token)
    target = t.session(to)
    if target.owner is not None and owner.find_dead([(to, target.owner)]):
        raise session_not_found(to, ended=True, reason=OWNER_DIED)
    step = handing.hand(t.now, state, held, target, reason=reason)
    t.apply(step)
    try:
        grant = t.claim(item, session=to, agent=None, ttl_seconds=ttl_seconds)
    except Refused as refused:
        raise refused.refusal from refused  # the handing session keeps its claim
    t.touch_session(session)
    return grant


def _lock(t: Transaction, item: str, session: str, to: str) -> None:
    """Lock all that both halves need, in the order of every transaction."""
    for one in sorted({session, to}):
        t.lock_session(one)
    row = t.one("session_by_id", id=to)
    if row is not None:
        t.lock("lock_agent", name=rows.session(row).agent)
    row = t.one("item_by_id", id=item)
    if row is not None and (found := rows.item(row)).resources:
        t.lock("lock_resources", project=found.project)
