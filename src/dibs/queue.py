"""Waiting in an item's queue until it is this session's turn, and claiming it then.

Between looks nothing is polled: the store's watch wakes on every change, and the store says when time alone will
change something. The ticket is short and renewed, so that a waiter killed without a word holds up the queue only
briefly; it is given up as soon as the wait ends in any other way than by the claim.
"""

from __future__ import annotations

import time

from dibs.errors import DibsError, ItemAlreadyClaimed, ItemNotClaimable, StoreUnavailable
from dibs.model import ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.model import Grant, Waiting
    from dibs.store.contract import Store, Watch

#: How long the queue keeps the place of a waiter that has fallen silent.
TICKET_SECONDS = 30.0
RENEW_SECONDS = 10.0


def claim_in_turn(
    store: Store,
    watch: Watch,
    item: str,
    session: str,
    claim: Callable[[], Grant],
    wait_seconds: float,
    accept_seconds: float,
    on_wait: Callable[[Waiting], None] | None,
    bury_the_dead: Callable[[], bool],
) -> Grant:
    """`watch` is closed at the end."""
    end = time.monotonic() + wait_seconds
    waits = True
    try:
        standing = store.wait(item, session=session, ttl_seconds=TICKET_SECONDS)
        renewed = buried = time.monotonic()
        while True:
            if standing.offered:
                grant = claim()
                waits = False
                return grant
            if on_wait is not None:
                on_wait(standing)
            left = end - time.monotonic()
            if left <= 0:
                return claim()
            due = store.due_seconds(item)
            # An offer to somebody else may wake only them: one look within its time tells when it lapses.
            woken = watch.wait(min(left, RENEW_SECONDS, accept_seconds, RENEW_SECONDS if due is None else due))
            if not woken or time.monotonic() - buried > RENEW_SECONDS:
                bury_the_dead()
                buried = time.monotonic()
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


def claim_when_offered(
    store: Store,
    watch: Watch,
    item: str,
    session: str,
    claim: Callable[[], Grant],
    wait_seconds: float,
    bury_the_dead: Callable[[], bool],
) -> Grant:
    """For somebody who has a ticket, and keeps it: refused when the time is up, or when its place has changed or has to
    be asked for anew. `watch` is closed at the end."""
    end = time.monotonic() + wait_seconds
    began: Waiting | None = None
    try:
        while True:
            standing = store.ticket(item, session=session)
            if standing.offered:
                return claim()
            if standing.status in ENDED:
                raise _over(item, standing)
            began = began or standing
            left, due = end - time.monotonic(), store.due_seconds(item)
            if left <= 0 or due == 0 or standing.ticket.closed_at is not None or _place(standing) != _place(began):
                raise _not_yet(item, standing)
            if not watch.wait(min(left, RENEW_SECONDS, RENEW_SECONDS if due is None else due)):
                bury_the_dead()
    finally:
        watch.close()


def claim_there(
    store: Store,
    item: str,
    session: str,
    claim: Callable[[float], Grant],
    wait_seconds: float,
    on_wait: Callable[[Waiting], None] | None,
) -> Grant:
    """In turn, by a store that waits: `claim` asks it to, for so long, with the ticket that is taken and renewed here.
    If the store is unavailable the ticket stands, for whoever goes on by watching."""
    end = time.monotonic() + wait_seconds
    try:
        while True:
            standing = store.wait(item, session=session, ttl_seconds=TICKET_SECONDS)
            if on_wait is not None and not standing.offered:
                on_wait(standing)
            left = max(0.0, end - time.monotonic())
            try:
                return claim(min(left, RENEW_SECONDS))
            except (ItemAlreadyClaimed, ItemNotClaimable) as refusal:
                if left <= 0 or refusal.facts.get("status") in ENDED:
                    raise
    except StoreUnavailable:
        raise
    except BaseException:
        _leave(store, item, session)
        raise


def _place(standing: Waiting) -> tuple[int, str, int | None]:
    """What who waits is told of."""
    claim = standing.claim
    return standing.position, standing.status, None if claim is None else claim.token


def _not_yet(item: str, standing: Waiting) -> ItemNotClaimable:
    why = f"this session is number {standing.position} in its queue"
    return ItemNotClaimable(f"{item} is not offered yet: {why}", item=item, status=standing.status, why=why)


def _over(item: str, standing: Waiting) -> ItemNotClaimable:
    reason = standing.ticket.reason or f"the item is {standing.status}"
    return ItemNotClaimable(f"the queue for {item} is closed: {reason}", item=item, status=standing.status, why=reason)


def _leave(store: Store, item: str, session: str) -> None:
    try:
        store.leave(item, session=session)
    except DibsError:
        pass  # the ticket is gone already, or lapses by itself
