"""Waiting in an item's queue until the item is offered to this session, and claiming it then.

Nothing is polled: the store's watch wakes on every change, and `due_seconds` says when time alone changes something.
The ticket has a short TTL and is renewed, so that a waiter that was killed delays the queue only briefly. A wait that
ends without the claim gives up the ticket.
"""

from __future__ import annotations

import time

from dibs.board.base import OWNER_LOOK_SECONDS
from dibs.errors import DibsError, ItemAlreadyClaimed, ItemNotClaimable
from dibs.model import ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.model import Grant, Waiting
    from dibs.store.contract import Store, Watch

#: The TTL of a ticket, and how often it is renewed.
TICKET_SECONDS = 30.0
RENEW_SECONDS = 10.0
#: The shortest wait for a change by time, which may be due and still not happen.
DUE_SECONDS_MIN = 0.05


def claim_in_turn(
    store: Store,
    item: str,
    session: str,
    claim: Callable[[], Grant],
    wait_seconds: float,
    on_wait: Callable[[Waiting], None] | None,
    watch: Watch,
    accept_seconds: float,
    reap_dead_owners: Callable[[], bool],
) -> Grant:
    """Queue for the item and claim it. `watch` is closed at the end."""
    end = time.monotonic() + wait_seconds
    has_ticket = True
    try:
        standing = store.wait(item, session=session, ttl_seconds=TICKET_SECONDS)
        renewed = reaped = time.monotonic()
        while True:
            left = end - time.monotonic()
            if standing.offered:
                grant = _accept(claim, left)
                if grant is not None:
                    has_ticket = False
                    return grant
                standing = store.wait(item, session=session, ttl_seconds=TICKET_SECONDS)
                continue
            if on_wait is not None:
                on_wait(standing)
            if left <= 0:
                return claim()
            due = store.due_seconds(item)
            # An offer to another session may wake that session only: look once within its time to learn when it lapses.
            woken = watch.wait(min(left, OWNER_LOOK_SECONDS, accept_seconds, RENEW_SECONDS if due is None else due))
            if not woken or time.monotonic() - reaped > OWNER_LOOK_SECONDS:
                reap_dead_owners()
                reaped = time.monotonic()
            standing = store.ticket(item, session=session)
            if standing.status in ENDED:
                has_ticket = False
                raise _queue_closed(item, standing)
            if standing.offered:
                continue
            # Renewing the ticket also records what time has changed about the item.
            if (
                store.due_seconds(item) == 0
                or standing.ticket.closed_at is not None
                or time.monotonic() - renewed > RENEW_SECONDS
            ):
                standing = store.wait(item, session=session, ttl_seconds=TICKET_SECONDS)
                renewed = time.monotonic()
    finally:
        watch.close()
        if has_ticket:
            _leave(store, item, session)


def claim_from_server(
    store: Store,
    item: str,
    session: str,
    claim: Callable[[], Grant],
    wait_seconds: float,
    on_wait: Callable[[Waiting], None] | None,
    wait_for_item: Callable[..., Waiting],
) -> Grant:
    """The same through a server, which does the waiting: the verb `wait_for_item` renews the ticket and answers when
    its position has changed, or after the given seconds. The client makes the claim, so that an offer to a client that
    is gone lapses."""
    end = time.monotonic() + wait_seconds

    def wait(seconds: float) -> Waiting:
        return wait_for_item(item, session=session, ttl_seconds=TICKET_SECONDS, wait_seconds=seconds)

    try:
        standing = wait(0)
        while True:
            left = end - time.monotonic()
            if standing.offered:
                grant = _accept(claim, left)
                if grant is not None:
                    return grant
                standing = wait(0)
                continue
            if standing.status in ENDED:
                raise _queue_closed(item, standing)
            if on_wait is not None:
                on_wait(standing)
            if left <= 0:
                return claim()
            standing = wait(min(left, RENEW_SECONDS))
    except BaseException:
        _leave(store, item, session)
        raise


def wait_for_change(
    store: Store, watch: Watch, ticket: Callable[[], Waiting], wait_seconds: float, reap_dead_owners: Callable[[], bool]
) -> Waiting:
    """Take or renew a ticket with `ticket`, and answer once it is offered the item, its position has changed, it has to
    be renewed because something is due, or the time is up. `watch` is closed at the end."""
    end = time.monotonic() + wait_seconds
    try:
        standing = first = ticket()
        item, session = first.ticket.item, first.ticket.session
        while not standing.offered and _position(standing) == _position(first):
            left, due = end - time.monotonic(), store.due_seconds(item)
            if left <= 0 or (due == 0 and standing is not first):
                break
            until_due = RENEW_SECONDS if due is None else max(due, DUE_SECONDS_MIN)
            if not watch.wait(min(left, OWNER_LOOK_SECONDS, until_due)):
                reap_dead_owners()
            standing = store.ticket(item, session=session)
        return standing
    finally:
        watch.close()


def _accept(claim: Callable[[], Grant], left_seconds: float) -> Grant | None:
    """Claim the offered item; None if the offer has lapsed and there is time to queue again."""
    try:
        return claim()
    except (ItemAlreadyClaimed, ItemNotClaimable):
        if left_seconds <= 0:
            raise
        return None


def _position(standing: Waiting) -> tuple[object, ...]:
    """Everything about a ticket whose change a waiter wants to know."""
    claim = standing.claim
    return standing.position, standing.status, standing.ticket.closed_at, None if claim is None else claim.token


def _queue_closed(item: str, standing: Waiting) -> ItemNotClaimable:
    reason = standing.ticket.reason or f"the item is {standing.status}"
    return ItemNotClaimable(f"the queue for {item} is closed: {reason}", item=item, status=standing.status, why=reason)


def _leave(store: Store, item: str, session: str) -> None:
    try:
        store.leave(item, session=session)
    except DibsError:
        pass  # the ticket is gone, or lapses by itself
