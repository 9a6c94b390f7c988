"""The verbs about tickets in an item's queue, and about soft claims."""

from __future__ import annotations

from dibs.errors import ItemNotClaimed
from dibs.model import READY, SoftClaim
from dibs.rules import claiming, queueing
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Ticket, Waiting
    from dibs.rules.decision import State
    from dibs.store.sql.transaction import Transaction


def wait(t: Transaction, item: str, *, session: str, ttl_seconds: float | None = None) -> Waiting:
    me = t.session(session)
    state = t.record_due(item)
    mine = queueing.ticket_of(state, session)
    if mine is not None and not queueing.live(mine, t.now) and state.item.offered_to != session:
        # The place of an expired ticket is lost; the new ticket goes to the end.
        t.run_one("close_ticket", rows.encode(queueing.close(mine, t.now, "it was not renewed")))
        state = t.state(item)
    ticket = queueing.wait(t.now, state, me, ttl_seconds, t.settings)
    t.run("renew_ticket" if ticket.id else "insert_ticket", rows.encode(ticket))
    t.touch_session(session)
    t.changed = True
    state = t.state(item)
    if state.item.status == READY and state.item.offered_to is None:
        t.apply(queueing.available(t.now, state, t.settings))
    return _waiting(t, item, session)


def leave(t: Transaction, item: str, *, session: str) -> Waiting:
    t.session(session)
    close_ticket(t, t.state(item), session, "it was given up")
    return _waiting(t, item, session)


def soft_claim(t: Transaction, item: str, *, session: str, ttl_seconds: float | None = None) -> SoftClaim:
    t.lock_session(session)
    t.state(item)
    me = t.session(session)
    seconds = claiming.ttl(me.kind, ttl_seconds, t.settings)
    soft = SoftClaim(
        item=item,
        session=session,
        agent=me.agent,
        claimed_at=t.now,
        expires_at=t.now + claiming.milliseconds(seconds),
        ttl_seconds=seconds,
    )
    t.run("put_soft_claim", rows.encode(soft))
    t.touch_session(session)
    t.changed = True
    return soft


def soft_release(t: Transaction, item: str, *, session: str) -> SoftClaim:
    t.state(item)
    row = t.one("soft_claim", item=item, session=session, now=t.now)
    if row is None:
        raise ItemNotClaimed(f"session {session} has no soft claim of {item}", item=item, how="never_claimed")
    t.run("drop_soft_claim", {"item": item, "session": session})
    t.changed = True
    return rows.soft_claim(row)


def close_ticket(t: Transaction, state: State, session: str, reason: str) -> None:
    """Close the session's ticket and pass its offer, if it had one, to the next ticket."""
    ticket, onward = queueing.leave(t.now, state, session, t.settings, reason)
    t.run_one("close_ticket", rows.encode(ticket))
    for step in onward:
        t.apply(step)
    t.changed = True


def latest_ticket(t: Transaction, item: str, session: str) -> Ticket:
    row = t.one("latest_ticket", item=item, session=session)
    if row is None:
        raise ItemNotClaimed(f"session {session} does not wait for {item}", item=item, how="not_waiting")
    return rows.ticket(row)


def _waiting(t: Transaction, item: str, session: str) -> Waiting:
    return queueing.waiting(t.now, t.state(item), latest_ticket(t, item, session))
