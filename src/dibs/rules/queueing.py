"""The queue of one item: tickets in order, and offers.

Every transition into ready offers the item to its first live ticket, in the same transaction. An offer is not a claim:
it reserves the item for `accept_seconds`, and the session accepts it by a claim. Without a live ticket any session can
claim the item; the event `claimable` records that.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import Invalid, ItemNotClaimable, ItemNotClaimed
from dibs.model import ENDED, READY, Session, Ticket, Waiting
from dibs.rules.decision import BOARD, State, Step, step


def wait(now: int, state: State, session: Session, ttl_seconds: float | None, settings: Settings) -> Ticket:
    """The session's ticket, new at the end of the queue or renewed in its place."""
    ttl_seconds = settings.ticket_ttl_seconds if ttl_seconds is None else ttl_seconds
    if not 1 <= ttl_seconds <= settings.ticket_ttl_seconds_max:
        raise Invalid(
            f"a ticket's TTL of {ttl_seconds:g}s is out of bounds; choose between 1s and"
            f" {settings.ticket_ttl_seconds_max:g}s",
            field="ttl_seconds",
        )
    if state.item.status in ENDED:
        raise _ended(state)
    expires_at = now + round(ttl_seconds * 1000)
    mine = ticket_of(state, session.id)
    if mine is not None:
        return mine.replace(expires_at=expires_at, ttl_seconds=ttl_seconds)
    if sum(live(ticket, now) for ticket in state.tickets) >= settings.waiters_max:
        raise ItemNotClaimable(
            f"the queue of {state.item.id} is full: {settings.waiters_max} sessions wait already",
            item=state.item.id,
            status=state.item.status,
            why="the queue is full",
        )
    return Ticket(
        item=state.item.id,
        session=session.id,
        agent=session.agent,
        since_at=now,
        expires_at=expires_at,
        ttl_seconds=ttl_seconds,
    )


def leave(now: int, state: State, session: str, settings: Settings, reason: str) -> tuple[Ticket, tuple[Step, ...]]:
    """The session's ticket, closed, and the step that passes its offer, if it had one, to the next ticket."""
    mine = ticket_of(state, session)
    if mine is None:
        raise ItemNotClaimed(
            f"session {session} does not wait for {state.item.id}", item=state.item.id, how="not_waiting"
        )
    closed = close(mine, now, reason)
    if state.item.offered_to != session:
        return closed, ()
    left = state.replace(tickets=tuple(ticket for ticket in state.tickets if ticket.id != mine.id))
    return closed, (available(now, left, settings),)


def follow(now: int, state: State, move: Step, settings: Settings) -> tuple[Step, ...]:
    """A step and its effect on the queue: an ended item closes its tickets, a free one is offered."""
    if move.item.status in ENDED and state.tickets:
        reason = f"the item is {move.item.status}"
        return (move.replace(closed=(*move.closed, *(close(ticket, now, reason) for ticket in state.tickets))),)
    became_free = state.item.status != READY or (state.item.offered_to is not None and move.item.offered_to is None)
    if move.item.status == READY and became_free:
        return (move, available(now, move.after(state), settings))
    return (move,)


def available(now: int, state: State, settings: Settings) -> Step:
    """The step that offers a ready item to its first live ticket, or makes it claimable by every session."""
    dead = tuple(close(ticket, now, "it was not renewed") for ticket in state.tickets if not live(ticket, now))
    first = next((ticket for ticket in state.tickets if live(ticket, now)), None)
    if first is None:
        return step(
            state,
            kind="claimable",
            at=now,
            status=READY,
            actor=BOARD,
            closed=dead,
            offered_to=None,
            offer_expires_at=None,
        )
    return step(
        state,
        kind="offered",
        at=now,
        status=READY,
        actor=BOARD,
        session=first.session,
        agent=first.agent,
        closed=dead,
        offered_to=first.session,
        offer_expires_at=now + round(settings.accept_seconds * 1000),
    )


def lapse(now: int, state: State) -> Step:
    """The step that ends an offer which was not accepted in time, and closes its ticket."""
    session = state.item.offered_to
    mine = () if session is None else tuple(t for t in state.tickets if t.session == session)
    return step(
        state,
        kind="offer_lapsed",
        at=now,
        status=READY,
        actor=BOARD,
        session=session,
        agent=mine[0].agent if mine else None,
        closed=tuple(close(ticket, now, "its offer was not accepted in time") for ticket in mine),
        offered_to=None,
        offer_expires_at=None,
    )


def waiting(now: int, state: State, ticket: Ticket) -> Waiting:
    """The position of this ticket (1 is the first) and whether it has an offer."""
    before = [one for one in state.tickets if live(one, now) and one.id < ticket.id]
    claim = state.claim if state.claim is not None and state.claim.expires_at > now else None
    return Waiting(
        ticket=ticket,
        position=len(before) + 1,
        offered=ticket.closed_at is None
        and state.item.offered_to == ticket.session
        and (state.item.offer_expires_at or 0) > now,
        status=state.item.status,
        claim=claim,
    )


def _ended(state: State) -> ItemNotClaimable:
    item = state.item
    return ItemNotClaimable(
        f"{item.id} is already {item.status}; there is nothing to wait for",
        item=item.id,
        status=item.status,
        why=f"it is {item.status}",
    )


def ticket_of(state: State, session: str) -> Ticket | None:
    return next((ticket for ticket in state.tickets if ticket.session == session), None)


def close(ticket: Ticket, now: int, reason: str) -> Ticket:
    return ticket.replace(closed_at=now, reason=reason)


def live(ticket: Ticket, now: int) -> bool:
    return ticket.closed_at is None and ticket.expires_at > now
