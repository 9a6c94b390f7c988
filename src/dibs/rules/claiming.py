"""Taking an item: who may, what a claim is given, how long it lasts.

Eligible for a claim is an item that rests as `ready` (by id also one that is parked and would), after time has been
recorded: an expired claim is ended first, a schedule that has come is promoted, an offer that nobody accepted goes on.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import ClaimExpired, DibsError, Invalid, ItemAlreadyClaimed, ItemNotClaimable
from dibs.model import (
    BLOCKED,
    IN_PROGRESS,
    PENDING_APPROVAL,
    PERSON,
    READY,
    SCHEDULED,
    Activity,
    Agent,
    Claim,
    Item,
    Run,
    Session,
    Ticket,
)
from dibs.rules import fencing, limits, queueing, table
from dibs.rules.decision import Decision, State, Step, step
from dibs.rules.limits import Load
from dibs.rules.overdue import freshen
from dibs.rules.resources import Hold, busy, conflict
from dibs.rules.resting import rest
from dibs.text import times
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


class Asker(Value):
    """Who asks for an item: the session, its agent, what they hold already, and what others hold in the way."""

    session: Session
    agent: Agent
    load: Load
    holds: tuple[Hold, ...] = ()


def claim(
    now: int,
    state: State,
    asker: Asker,
    *,
    ttl_seconds: float | None,
    settings: Settings,
    unless_after: int | None = None,
) -> Decision:
    """Claim by id. The session's own live claim is renewed and given again; everybody else's is a refusal.

    With `unless_after`, the claim of a holder that comes back: refused if anybody was given the item since that token.
    """
    session = asker.session
    ttl_seconds = ttl(session.kind, ttl_seconds, settings)
    steps, state = freshen(now, state, settings)
    if state.claim is not None and state.claim.session == session.id:
        return Decision(steps=tuple(steps), renewed=fencing.renew(state.claim, now, ttl_seconds, counted=False))
    refusal = why_not(now, state, asker, unless_after)
    if refusal is None:
        served = queueing.ticket_of(state, session.id)
        closed = () if served is None else (queueing.close(served, now, "it was served"),)
        return Decision(steps=(*steps, grant(now, state, session, ttl_seconds, closed)))
    if state.item.offered_to == session.id:
        # An offer that its session cannot accept goes to the next one.
        ticket, onward = queueing.leave(
            now, state, session.id, settings, f"its session could not accept: {refusal.code}"
        )
        steps += [one.replace(closed=(*one.closed, ticket)) for one in onward]
    return Decision(steps=tuple(steps), refusal=refusal, activity=refused(now, state.item, session, refusal))


def grant(now: int, state: State, session: Session, ttl_seconds: float, closed: tuple[Ticket, ...] = ()) -> Step:
    """The step that gives an eligible item to a session, under the next token."""
    item = state.item
    table.require("claim", item)
    token = item.token + 1
    deadline_at = now + milliseconds(item.timeout_seconds)
    taken = Claim(
        item=item.id,
        token=token,
        session=session.id,
        agent=session.agent,
        claimed_at=now,
        renewed_at=now,
        expires_at=min(now + milliseconds(ttl_seconds), deadline_at),
        deadline_at=deadline_at,
        ttl_seconds=ttl_seconds,
    )
    run = Run(item=item.id, token=token, session=session.id, agent=session.agent, started_at=now)
    return step(
        state,
        kind="claimed",
        at=now,
        status=IN_PROGRESS,
        actor=session.agent,
        session=session.id,
        agent=session.agent,
        claim=taken,
        run=run,
        closed=closed,
        data={"ttl_seconds": ttl_seconds, "deadline_at": deadline_at},
        token=token,
        attempts=item.attempts + 1,
    )


def why_not(now: int, state: State, asker: Asker, unless_after: int | None = None) -> DibsError | None:
    """Why this item, up to date with the clock, is not given to who asks; None if it is."""
    return next(reasons(now, state, asker, unless_after), None)


def reasons(now: int, state: State, asker: Asker, unless_after: int | None = None) -> Iterator[DibsError]:
    """Everything that stands between who asks and the item, the weightiest first."""
    item, session = state.item, asker.session
    if unless_after is not None and item.token != unless_after:
        yield fencing.taken_over(state, unless_after)
    elif state.claim is not None:
        yield already_claimed(now, state.claim)
    elif not table.allowed("claim", item.status) or rest(item, now, blocked=bool(state.blockers)) != READY:
        yield not_claimable(now, state)
    elif item.offered_to is not None and item.offered_to != session.id:
        yield offered(now, item)
    if not limits.may_take(asker.agent, item.action, item.approved):
        yield limits.not_allowed(asker.agent, item)
    full = limits.refusal(now, asker.agent, asker.load)
    if full is not None:
        yield full
    held = conflict(item, asker.holds, session.id)
    if held is not None:
        yield busy(item.id, held)


def not_claimable(now: int, state: State) -> ItemNotClaimable:
    """An item that is in no state to be claimed, and what it waits for."""
    item = state.item
    status = item.status if not table.allowed("claim", item.status) else rest(item, now, blocked=bool(state.blockers))
    why = f"it is {status}"
    facts: dict[str, Any] = {}
    if status == BLOCKED:
        facts["blocked_by"] = [blocker.item for blocker in state.blockers]
        # Only an ended one is named with its status: of another, the row may say what time has overtaken.
        why = "it waits for " + ", ".join(
            blocker.item if blocker.will_move else f"{blocker.item} ({blocker.status})" for blocker in state.blockers
        )
    elif status == SCHEDULED and item.not_before is not None:
        facts.update(not_before=item.not_before, retry_after_seconds=(item.not_before - now) / 1000)
        why = f"its time comes in {times.span((item.not_before - now) / 1000)}"
    elif status == PENDING_APPROVAL:
        why = "it waits for approval"
    return ItemNotClaimable(
        f"{item.id} is {item.status}: {why}; only a ready item can be claimed",
        item=item.id,
        status=item.status,
        why=why,
        **facts,
    )


def offered(now: int, item: Item) -> ItemNotClaimable:
    left = max(0, (item.offer_expires_at or now) - now) / 1000
    return ItemNotClaimable(
        f"{item.id} is kept for session {item.offered_to}, first in its queue, for {times.span(left)} more",
        item=item.id,
        status=item.status,
        why=f"it is offered to session {item.offered_to}",
        offered_to=item.offered_to,
        retry_after_seconds=left,
    )


def wanted_types(agent: Agent, asked: Sequence[str]) -> tuple[str, ...] | None:
    """The types to look for: what was asked for within what the agent takes; None means every type."""
    if not agent.types:
        return tuple(asked) or None
    return tuple(t for t in agent.types if not asked or t in asked)


def ttl(kind: str, asked: float | None, settings: Settings) -> float:
    """The TTL a session of this kind gets: what it asks for within the bounds, or its kind's default."""
    person = kind == PERSON
    if asked is None:
        return settings.person_ttl_seconds if person else settings.ttl_seconds
    low, high = settings.ttl_seconds_min, settings.person_ttl_seconds_max if person else settings.ttl_seconds_max
    if not low <= asked <= high:
        raise Invalid(
            f"a TTL of {times.span(asked)} is out of bounds; between {times.span(low)} and {times.span(high)} is right",
            field="ttl_seconds",
            ttl_seconds_min=low,
            ttl_seconds_max=high,
        )
    return asked


def already_claimed(now: int, claim: Claim) -> ItemAlreadyClaimed:
    left = fencing.remaining_seconds(claim, now)
    return ItemAlreadyClaimed(
        f"{claim.item} is already claimed by {claim.agent} (session {claim.session}) {times.for_more(left)}",
        item=claim.item,
        holder=fencing.holder(claim),
        claimed_at=claim.claimed_at,
        expires_at=claim.expires_at,
        remaining_seconds=left,
    )


def refused(now: int, item: Item, session: Session, refusal: DibsError) -> Activity:
    return Activity(
        at=now,
        item=item.id,
        session=session.id,
        agent=session.agent,
        action="claim_failed",
        code=refusal.code,
        details={"status": item.status, "holder": refusal.facts.get("holder")},
    )


def recoverable(error: ClaimExpired) -> bool:
    """Whether the holder of this lost claim may claim again: nobody was given the item since."""
    return error.facts.get("taken_over_by") is None


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
