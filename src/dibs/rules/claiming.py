"""Taking an item: who may, what a claim is given, how long it lasts.

Eligible for a claim is an item that is `ready`; an item whose claim has expired counts as ready, the expiry being
recorded first. A session's limit is its agent's `max_claims`, counted over its live claims.
"""

from __future__ import annotations

from dibs import when
from dibs.config import Settings
from dibs.errors import (
    AgentAtCapacity,
    ClaimExpired,
    DibsError,
    Invalid,
    ItemAlreadyClaimed,
    ItemNotClaimable,
)
from dibs.model import IN_PROGRESS, PERSON, Activity, Agent, Claim, Item, Run, Session
from dibs.rules import ending, holding, table
from dibs.rules.decision import Decision, State, Step, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def claim(
    now: int,
    state: State,
    session: Session,
    agent: Agent,
    held: int,
    *,
    ttl_seconds: float | None,
    settings: Settings,
    unless_after: int | None = None,
) -> Decision:
    """Claim by id. The session's own live claim is renewed and given again; everybody else's is a refusal.

    With `unless_after`, the claim of a holder that comes back: refused if anybody was given the item since that token.
    """
    ttl_seconds = ttl(session.kind, ttl_seconds, settings)
    item, steps = state.item, []
    if state.claim is not None and holding.live(state.claim, now):
        if state.claim.session == session.id:
            return Decision(renewed=holding.renew(state.claim, now, ttl_seconds, counted=False))
        refusal: DibsError = already_claimed(now, state.claim)
        if unless_after is not None:
            refusal = holding.taken_over(state, unless_after)
        return Decision(refusal=refusal, activity=refused(now, item, session, refusal))
    if state.claim is not None:
        steps = [ending.expire(now, state, settings)]
        state = steps[0].state()
    refusal_now = why_not(state, agent, held, unless_after)
    if refusal_now is not None:
        activity = refused(now, item, session, refusal_now)
        return Decision(steps=tuple(steps), refusal=refusal_now, activity=activity)
    return Decision(steps=(*steps, grant(now, state.item, session, ttl_seconds)))


def grant(now: int, item: Item, session: Session, ttl_seconds: float) -> Step:
    """The step that gives an eligible item to a session, under the next token."""
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
        State(item=item, claim=None, run=None),
        kind="claimed",
        at=now,
        status=IN_PROGRESS,
        actor=session.agent,
        session=session.id,
        agent=session.agent,
        claim=taken,
        run=run,
        data={"ttl_seconds": ttl_seconds, "deadline_at": deadline_at},
        token=token,
        attempts=item.attempts + 1,
    )


def why_not(state: State, agent: Agent, held: int, unless_after: int | None) -> DibsError | None:
    """Why an unclaimed item is not given now; None if it is."""
    item = state.item
    if unless_after is not None and item.token != unless_after:
        return holding.taken_over(state, unless_after)
    if not table.allowed("claim", item.status):
        return ItemNotClaimable(
            f"{item.id} is {item.status}; only a ready item can be claimed",
            item=item.id,
            status=item.status,
            why=f"it is {item.status}",
        )
    return at_capacity(agent, held)


def at_capacity(agent: Agent, held: int) -> AgentAtCapacity | None:
    if agent.max_claims is None or held < agent.max_claims:
        return None
    return AgentAtCapacity(
        f"{agent.name} holds {held} of {agent.max_claims} items a session may hold; end one first",
        agent=agent.name,
        held=held,
        max_claims=agent.max_claims,
    )


def room(agent: Agent, held: int, n: int) -> int:
    """How many of `n` wanted items the session has room for."""
    return n if agent.max_claims is None else min(n, agent.max_claims - held)


def wanted_types(agent: Agent, asked: Sequence[str]) -> tuple[str, ...] | None:
    """The types to look for: what was asked for within what the agent takes; None means every type."""
    if not agent.types:
        return tuple(asked) or None
    return tuple(t for t in agent.types if not asked or t in asked)


def best_first(items: Iterable[Item]) -> list[Item]:
    """Priority descending; the given order (oldest first) breaks ties."""
    return sorted(items, key=lambda item: -item.priority)


def ttl(kind: str, asked: float | None, settings: Settings) -> float:
    """The TTL a session of this kind gets: what it asks for within the bounds, or its kind's default."""
    person = kind == PERSON
    if asked is None:
        return settings.person_ttl_seconds if person else settings.ttl_seconds
    low, high = settings.ttl_seconds_min, settings.person_ttl_seconds_max if person else settings.ttl_seconds_max
    if not low <= asked <= high:
        raise Invalid(
            f"a TTL of {asked:g}s is out of bounds; between {when.span(low)} and {when.span(high)} is right",
            field="ttl_seconds",
            ttl_seconds_min=low,
            ttl_seconds_max=high,
        )
    return asked


def already_claimed(now: int, claim: Claim) -> ItemAlreadyClaimed:
    left = holding.remaining_seconds(claim, now)
    return ItemAlreadyClaimed(
        f"{claim.item} is claimed by {claim.agent} (session {claim.session}) for {when.span(left)} more",
        item=claim.item,
        holder=holding.holder(claim),
        claimed_at=claim.claimed_at,
        expires_at=claim.expires_at,
        remaining_seconds=left,
    )


def refused(now: int, item: Item, session: Session, refusal: DibsError) -> Activity:
    code = refusal.code
    details = {"message": refusal.message, "holder": refusal.facts.get("holder")}
    return Activity(
        at=now, item=item.id, session=session.id, agent=session.agent, action="claim_failed", code=code, details=details
    )


def recoverable(error: ClaimExpired) -> bool:
    """Whether the holder of this lost claim may claim again: nobody was given the item since."""
    return error.facts.get("taken_over_by") is None


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
