"""Waiting: tickets of one item, and soft claims."""

from __future__ import annotations

from abc import abstractmethod

from dibs.errors import ItemNotClaimed
from dibs.model import READY, SoftClaim, Waiting
from dibs.rules import claiming, queueing
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from dibs.model import Request, Ticket
    from dibs.rules.decision import State
    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")


class Tickets:
    @abstractmethod
    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T: ...

    def wait(self, item: str, *, session: str, ttl_seconds: float | None = None) -> Waiting:
        return self.write(lambda t: _wait(t, item, session, ttl_seconds))

    def leave(self, item: str, *, session: str, request: Request | None = None) -> Waiting:
        def work(t: Transaction) -> Waiting:
            t.session(session)
            state = t.state(item)
            leave(t, state, session, "it was given up")
            return _latest(t, t.state(item), session)

        return self.write(work, request, Waiting)

    def soft_claim(self, item: str, *, session: str, ttl_seconds: float | None = None) -> SoftClaim:
        def soft_claim(t: Transaction) -> SoftClaim:
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
            t.see(session)
            t.changed = True
            return soft

        return self.write(soft_claim)

    def soft_release(self, item: str, *, session: str, request: Request | None = None) -> SoftClaim:
        def soft_release(t: Transaction) -> SoftClaim:
            t.state(item)
            row = t.one("soft_claim", item=item, session=session, now=t.now)
            if row is None:
                raise ItemNotClaimed(f"session {session} has no soft claim of {item}", item=item, how="never_claimed")
            t.run("drop_soft_claim", {"item": item, "session": session})
            t.changed = True
            return rows.soft_claim(row)

        return self.write(soft_release, request, SoftClaim)


def leave(t: Transaction, state: State, session: str, reason: str) -> None:
    """Close the session's ticket; an offer to it goes to the next one."""
    ticket, onward = queueing.leave(t.now, state, session, t.settings, reason)
    t.run_one("close_ticket", rows.encode(ticket))
    for step in onward:
        t.take(step)
    t.changed = True


def _wait(t: Transaction, item: str, session: str, ttl_seconds: float | None) -> Waiting:
    me = t.session(session)
    state = t.fresh(item)
    stale = queueing.ticket_of(state, session)
    if stale is not None and not queueing.live(stale, t.now) and state.item.offered_to != session:
        # A place that was not kept is lost; the new ticket is at the end.
        t.run_one("close_ticket", rows.encode(queueing.close(stale, t.now, "it was not renewed")))
        state = t.state(item)
    ticket = queueing.wait(t.now, state, me, ttl_seconds, t.settings)
    t.run("renew_ticket" if ticket.id else "insert_ticket", rows.encode(ticket))
    t.see(session)
    t.changed = True
    state = t.state(item)
    if state.item.status == READY and state.item.offered_to is None:
        t.take(queueing.available(t.now, state, t.settings))
    return _latest(t, t.state(item), session)


def _latest(t: Transaction, state: State, session: str) -> Waiting:
    return queueing.waiting(t.now, state, latest_ticket(t, state.item.id, session))


def latest_ticket(t: Transaction, item: str, session: str) -> Ticket:
    row = t.one("latest_ticket", item=item, session=session)
    if row is None:
        raise ItemNotClaimed(f"session {session} does not wait for {item}", item=item, how="not_waiting")
    return rows.ticket(row)
