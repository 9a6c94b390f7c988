"""Claims: which sessions may claim an item, what a claim grants, and how long it lasts.

An item can be claimed if it is `ready`, or by id also if it is parked and would be ready, after overdue steps were
recorded: an expired claim ends first, a schedule that has come makes the item ready, an offer that lapsed moves on.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import (
    AgentAtCapacity,
    ClaimExpired,
    DibsError,
    Invalid,
    ItemAlreadyClaimed,
    ItemNotClaimable,
    ResourceBusy,
)
from dibs.model import (
    AGENT,
    BLOCKED,
    ENDED,
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
from dibs.rules.overdue import due_steps
from dibs.rules.refusals import holder
from dibs.rules.resources import Hold, busy, conflict
from dibs.text import times
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

#: Claims of coding agents last so much longer than others, because models and their tools take their time.
AGENT_TTL_FACTOR = 1.5
#: Refusals that another claim can cause.
CAUSED_BY_A_CLAIM = (ItemAlreadyClaimed, ItemNotClaimable, ResourceBusy, AgentAtCapacity)


class Claimant(Value):
    """A session that wants an item, with its agent, its load, and the resources that other sessions hold."""

    session: Session
    agent: Agent
    load: Load
    holds: tuple[Hold, ...] = ()


def claim(
    now: int,
    state: State,
    claimant: Claimant,
    *,
    ttl_seconds: float | None,
    settings: Settings,
    unless_after: int | None = None,
) -> Decision:
    """Claim by id. A live claim of the same session is renewed; a live claim of another session is a refusal.

    `unless_after` recovers a lost claim: the claim is refused if the item was given under a token after that one.
    """
    session = claimant.session
    ttl_seconds = ttl(session.kind, ttl_seconds, settings)
    steps, state = due_steps(now, state, settings)
    if state.claim is not None and state.claim.session == session.id:
        return Decision(steps=tuple(steps), renewed=fencing.renew(state.claim, now, ttl_seconds, counted=False))
    refusal = next(reasons(now, state, claimant, unless_after), None)
    if refusal is None:
        ticket = queueing.ticket_of(state, session.id)
        closed = () if ticket is None else (queueing.close(ticket, now, "it was served"),)
        return Decision(steps=(*steps, grant(now, state, session, ttl_seconds, closed)))
    if state.item.offered_to == session.id:
        # The session cannot accept its offer, so the offer goes to the next ticket.
        ticket, onward = queueing.leave(
            now, state, session.id, settings, f"its session could not accept: {refusal.code}"
        )
        steps += [one.replace(closed=(*one.closed, ticket)) for one in onward]
    return Decision(steps=tuple(steps), refusal=refusal, activity=refused(now, state.item, session, refusal))


def grant(now: int, state: State, session: Session, ttl_seconds: float, closed: tuple[Ticket, ...] = ()) -> Step:
    """The step that gives a claimable item to a session, under the next token."""
    item = state.item
    table.require("claim", item)
    token = item.token + 1
    deadline_at = now + milliseconds(item.timeout_seconds)
    granted = Claim(
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
        claim=granted,
        run=run,
        closed=closed,
        data={"ttl_seconds": ttl_seconds, "deadline_at": deadline_at},
        token=token,
        attempts=item.attempts + 1,
    )


def reasons(now: int, state: State, claimant: Claimant, unless_after: int | None = None) -> Iterator[DibsError]:
    """All refusals of this claim, the most important first. `state` has no overdue steps."""
    item, session = state.item, claimant.session
    if unless_after is not None and item.token != unless_after:
        yield fencing.taken_over(state, unless_after)
    elif state.claim is not None:
        yield already_claimed(now, state.claim)
    elif not table.allowed("claim", item.status) or table.rest(item, now, blocked=bool(state.blockers)) != READY:
        yield not_claimable(now, state)
    elif item.offered_to is not None and item.offered_to != session.id:
        yield offered(now, item)
    yield from _reasons_of_item(item, claimant, limits.refusal(now, claimant.agent, claimant.load))


def skips(claimant: Claimant, item: Item) -> bool:
    """Whether `next` skips a ready item for this claimant, whatever the agent's limits."""
    return any(_reasons_of_item(item, claimant))


def _reasons_of_item(item: Item, claimant: Claimant, full: DibsError | None = None) -> Iterator[DibsError]:
    """The reasons that lie in the item itself; `full`, that of the agent's limits, comes where it belongs in their
    order."""
    if not limits.may_take(claimant.agent, item.action, item.approved):
        yield limits.not_allowed(claimant.agent, item)
    if full is not None:
        yield full
    held = conflict(item, claimant.holds, claimant.session.id)
    if held is not None:
        yield busy(item.id, held)


def not_claimable(now: int, state: State) -> ItemNotClaimable:
    """The refusal for a status that does not allow a claim. It names what the item waits for."""
    item = state.item
    status = item.status
    if table.allowed("claim", status):
        status = table.rest(item, now, blocked=bool(state.blockers))
    facts: dict[str, Any] = {}
    why, message = f"it is {status}", f"{item.id} is {status} and cannot be claimed"
    if status in ENDED:
        message = f"{item.id} is already {status}"
    elif status == BLOCKED:
        facts["blocked_by"] = [blocker.item for blocker in state.blockers]
        # Only an ended dependency is shown with its status: the row of another may be outdated.
        waits_for = ", ".join(
            blocker.item if blocker.will_move else f"{blocker.item} ({blocker.status})" for blocker in state.blockers
        )
        why, message = f"it waits for {waits_for}", f"{item.id} is blocked: it waits for {waits_for}"
    elif status == SCHEDULED and item.not_before is not None:
        left = (item.not_before - now) / 1000
        facts.update(not_before=item.not_before, retry_after_seconds=left)
        why = f"its time comes in {times.span(left)}"
        message = f"{item.id} is scheduled: it can be claimed in {times.span(left)}"
    elif status == PENDING_APPROVAL:
        why, message = "it waits for approval", f"{item.id} waits for approval"
    return ItemNotClaimable(message, item=item.id, status=item.status, why=why, **facts)


def offered(now: int, item: Item) -> ItemNotClaimable:
    left = max(0, (item.offer_expires_at or now) - now) / 1000
    return ItemNotClaimable(
        f"{item.id} is offered to session {item.offered_to}, the first in its queue, for {times.span(left)} more",
        item=item.id,
        status=item.status,
        why=f"it is offered to session {item.offered_to}",
        offered_to=item.offered_to,
        retry_after_seconds=left,
    )


def wanted_types(agent: Agent, asked: Sequence[str]) -> tuple[str, ...] | None:
    """The types that both the caller and the agent accept; None means every type."""
    if not agent.types:
        return tuple(asked) or None
    return tuple(t for t in agent.types if not asked or t in asked)


def ttl(kind: str, asked: float | None, settings: Settings) -> float:
    """The TTL for a session of this kind: the one asked for, within the bounds, or the default of its kind."""
    person = kind == PERSON
    if asked is None and kind == AGENT:
        return min(AGENT_TTL_FACTOR * settings.ttl_seconds, settings.ttl_seconds_max)
    if asked is None:
        return settings.person_ttl_seconds if person else settings.ttl_seconds
    low, high = settings.ttl_seconds_min, settings.person_ttl_seconds_max if person else settings.ttl_seconds_max
    if not low <= asked <= high:
        raise Invalid(
            f"a TTL of {times.exact(asked)} is out of bounds; choose between {times.span(low)} and {times.span(high)}",
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
        holder=holder(claim),
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


def is_caused_by_a_claim(refusal: DibsError) -> bool:
    """Whether another claim can be the reason. `Invalid` is caused by one only if it names the holder: some fields of a
    claimed item cannot change. `RateLimited` never is: an ended claim still counts towards the rate."""
    return isinstance(refusal, CAUSED_BY_A_CLAIM) or (isinstance(refusal, Invalid) and "holder" in refusal.facts)


def recoverable(error: ClaimExpired) -> bool:
    """Whether the session that lost this claim may claim the item again: no other session claimed it since."""
    return error.facts.get("taken_over_by") is None


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
