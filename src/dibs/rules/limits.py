"""Limits and policy of an agent: how much it may hold, how fast it may claim, and which actions it may take.

`max_claims` counts the live claims of one session, `max_claims_total` those of all sessions of the agent. The rate
limit is a token bucket of `claims_burst` that refills at `claims_per_minute`. A policy lists allowed and sensitive
actions: the agent does the allowed ones, submits a draft of the sensitive ones, does those that are both once they are
approved, and takes no others.
"""

from __future__ import annotations

from dibs.errors import AgentAtCapacity, DibsError, Forbidden, RateLimited
from dibs.model import Agent, Item
from dibs.text import times
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model.kinds import Instant


class Load(Value):
    """The live claims, the bucket and the next expiry that the limits are compared with."""

    held: int = 0
    held_total: int = 0
    bucket: float = 0.0
    bucket_at: Instant = 0
    next_expiry_at: Instant | None = None


def refusal(now: int, agent: Agent, load: Load) -> DibsError | None:
    """Why this agent cannot claim anything now; None if it can."""
    for held, most, whose in (
        (load.held, agent.max_claims, "one of its sessions"),
        (load.held_total, agent.max_claims_total, "all its sessions together"),
    ):
        if most is not None and held >= most:
            return _at_capacity(now, agent, load, held, most, whose)
    if agent.claims_per_minute is not None and bucket_level(now, agent, load) < 1:
        wait = (1 - bucket_level(now, agent, load)) * 60 / agent.claims_per_minute
        return RateLimited(
            f"{agent.name} may claim {agent.claims_per_minute:g} items a minute; try again in {times.span(wait + 0.5)}",
            agent=agent.name,
            claims_per_minute=agent.claims_per_minute,
            retry_after_seconds=int(wait * 1000 + 1) / 1000,  # rounded up, so that a retry is not too early
        )
    return None


def room(now: int, agent: Agent, load: Load, n: int) -> int:
    """How many of `n` items the limits allow."""
    if agent.max_claims is not None:
        n = min(n, agent.max_claims - load.held)
    if agent.max_claims_total is not None:
        n = min(n, agent.max_claims_total - load.held_total)
    if agent.claims_per_minute is not None:
        n = min(n, int(bucket_level(now, agent, load)))
    return max(0, n)


def bucket_level(now: int, agent: Agent, load: Load) -> float:
    if agent.claims_per_minute is None:
        return float(agent.claims_burst)
    minutes = max(0, now - load.bucket_at) / 60_000
    return min(float(agent.claims_burst), load.bucket + minutes * agent.claims_per_minute)


def may_take(agent: Agent, action: str, approved: bool) -> bool:
    """Whether the policy gives an item of this action to the agent; an approved item only to one that may do it."""
    if not (agent.allowed_actions or agent.sensitive_actions):
        return True
    allowed, sensitive = action in agent.allowed_actions, action in agent.sensitive_actions
    return (allowed and not sensitive) or (allowed and approved) or (sensitive and not allowed and not approved)


def may_finish(agent: Agent, item: Item) -> bool:
    """Whether the agent may end this item as done; otherwise it submits a draft."""
    if not (agent.allowed_actions or agent.sensitive_actions):
        return True
    return item.action in agent.allowed_actions and (item.approved or item.action not in agent.sensitive_actions)


def not_allowed(agent: Agent, item: Item) -> Forbidden:
    approved = "approved " if item.approved else ""
    text = f"{agent.name} is not allowed the {approved}action {item.action}"
    if item.action in agent.allowed_actions:
        text = f"{agent.name} is allowed the action {item.action} only once it is approved"
    return Forbidden(text, item=item.id, agent=agent.name, action=item.action)


def must_submit(agent: Agent, item: Item) -> Forbidden:
    return Forbidden(
        f"{item.action} is a sensitive action for {agent.name}: submit a draft instead",
        item=item.id,
        agent=agent.name,
        action=item.action,
    )


def _at_capacity(now: int, agent: Agent, load: Load, held: int, most: int, whose: str) -> AgentAtCapacity:
    expiry = load.next_expiry_at
    return AgentAtCapacity(
        f"{agent.name} holds {held} of the {most} items that {whose} may hold; end one first",
        agent=agent.name,
        held=held,
        max_claims=most,
        retry_after_seconds=None if expiry is None else max(0, expiry - now) / 1000,
    )
