"""Waiting in an item's queue until it is this session's turn, and claiming it then.

Between looks nothing is polled: the store's watch wakes on every change, and the store says when time alone will
change something. The ticket is short and renewed, so that a waiter killed without a word holds up the queue only
briefly; it is given up as soon as the wait ends in any other way than by the claim.
"""

from __future__ import annotations

import time

from dibs.errors import DibsError, ItemAlreadyClaimed, ItemNotClaimable
from dibs.model import ENDED
from dibs.sdk import owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.model import Grant, Waiting
    from dibs.store.contract import Store, Watch

#: How long the queue keeps the place of a waiter that has fallen silent.
TICKET_SECONDS = 30.0
RENEW_SECONDS = 10.0
#: What is due and cannot be moved on, for whatever reason, is not looked at more often than this.
DUE_SECONDS_MIN = 0.05


def claim_in_turn(
    store: Store,
    watch: Watch,
    item: str,
    session: str,
    claim: Callable[[], Grant],
    wait_seconds: float,
    accept_seconds: float,
    on_wait: Callable[[Waiting], None] | None,
    reap_dead_owners: Callable[[], bool],
) -> Grant:
    """`watch` is closed at the end."""
    end = time.monotonic() + wait_seconds
    waits = True
    try:
        standing = store.wait(item, session=session, ttl_seconds=TICKET_SECONDS)
        renewed = reaped = time.monotonic()
        while True:
            left = end - time.monotonic()
            if standing.offered:
                grant = _accept(claim, left)
                if grant is not None:
                    waits = False
                    return grant
                standing = store.wait(item, session=session, ttl_seconds=TICKET_SECONDS)
                continue
            if on_wait is not None:
                on_wait(standing)
            if left <= 0:
                return claim()
            due = store.due_seconds(item)
            # An offer to somebody else may wake only them: one look within its time tells when it lapses.
            woken = watch.wait(min(left, owner.LOOK_SECONDS, accept_seconds, RENEW_SECONDS if due is None else due))
            if not woken or time.monotonic() - reaped > owner.LOOK_SECONDS:
                reap_dead_owners()
                reaped = time.monotonic()
            standing = store.ticket(item, session=session)
            if standing.status in ENDED:
                waits = False
                raise _over(item, standing)
            if standing.offered:
                continue  # its turn: whatever else there is to know can wait
            # What time has done to the item is recorded by whoever asks for it, and a ticket asks.
            if (
                store.due_seconds(item) == 0
                or standing.ticket.closed_at is not None
                or time.monotonic() - renewed > RENEW_SECONDS
            ):
                standing = store.wait(item, session=session, ttl_seconds=TICKET_SECONDS)
                renewed = time.monotonic()
    finally:
        watch.close()
        if waits:
            _leave(store, item, session)


def claim_when_told(
    store: Store,
    item: str,
    session: str,
    claim: Callable[[], Grant],
    stands: Callable[[float], Waiting],
    wait_seconds: float,
    on_wait: Callable[[Waiting], None] | None,
) -> Grant:
    """The same on a store that waits: `stands` asks it, for so long, where the ticket stands by then. The claim is made
    from here, since an offer is for who is there to accept it."""
    end = time.monotonic() + wait_seconds
    try:
        standing = stands(0)
        while True:
            left = end - time.monotonic()
            if standing.offered:
                grant = _accept(claim, left)
                if grant is not None:
                    return grant
                standing = stands(0)
                continue
            if standing.status in ENDED:
                raise _over(item, standing)
            if on_wait is not None:
                on_wait(standing)
            if left <= 0:
                return claim()
            standing = stands(min(left, RENEW_SECONDS))
    except BaseException:
        _leave(store, item, session)
        raise


def stand(
    store: Store, watch: Watch, ticket: Callable[[], Waiting], wait_seconds: float, reap_dead_owners: Callable[[], bool]
) -> Waiting:
    """Take a ticket or renew it, and see how it stands once that is news: it is offered the item, it stands elsewhere,
    it has to be renewed for what time has done, or the time is up. `watch` is closed at the end."""
    end = time.monotonic() + wait_seconds
    try:
        standing = first = ticket()
        item, session = first.ticket.item, first.ticket.session
        while not standing.offered and _place(standing) == _place(first):
            left, due = end - time.monotonic(), store.due_seconds(item)
            if left <= 0 or (due == 0 and standing is not first):
                break
            until_due = RENEW_SECONDS if due is None else max(due, DUE_SECONDS_MIN)
            if not watch.wait(min(left, owner.LOOK_SECONDS, until_due)):
                reap_dead_owners()
            standing = store.ticket(item, session=session)
        return standing
    finally:
        watch.close()


def _accept(claim: Callable[[], Grant], left_seconds: float) -> Grant | None:
    """Claim what was offered; None if the offer had gone to somebody else by then and there is time to queue anew."""
    try:
        return claim()
    except (ItemAlreadyClaimed, ItemNotClaimable):
        if left_seconds <= 0:
            raise
        return None


def _place(standing: Waiting) -> tuple[object, ...]:
    """What is news to who waits, if it changes."""
    claim = standing.claim
    return standing.position, standing.status, standing.ticket.closed_at, None if claim is None else claim.token


def _over(item: str, standing: Waiting) -> ItemNotClaimable:
    reason = standing.ticket.reason or f"the item is {standing.status}"
    return ItemNotClaimable(f"the queue for {item} is closed: {reason}", item=item, status=standing.status, why=reason)


def _leave(store: Store, item: str, session: str) -> None:
    try:
        store.leave(item, session=session)
    except DibsError:
        pass  # the ticket is gone already, or lapses by itself
