"""What an agent may hold, how fast it may claim, and what it may do.

A session's limit is counted over its own live claims, the agent's over those of all its sessions. The rate is a bucket
of `claims_burst` that refills at `claims_per_minute`; each claim given takes one. With a policy (allowed or sensitive
actions), allowed ones are done, sensitive ones are drafted and submitted, those that are both are done once they are
approved, and nothing else is taken.
"""

from __future__ import annotations

from dibs.errors import AgentAtCapacity, DibsError, Forbidden, RateLimited
from dibs.model import Agent, Item
from dibs.text import times
from dibs.value import Value


class Load(Value):
    """What an agent has going on, as far as its limits ask: claims held, the bucket, and when the next claim lapses."""

    held: int
    held_total: int
    bucket: float
    bucket_at: int
    next_expiry_at: int | None


def refusal(now: int, agent: Agent, load: Load) -> DibsError | None:
    """Why this agent may not claim anything right now; None if it may."""
    for held, most, whose in (
        (load.held, agent.max_claims, "a session of it"),
        (load.held_total, agent.max_claims_total, "all its sessions together"),
    ):
        if most is not None and held >= most:
            return _at_capacity(now, agent, load, held, most, whose)
    if agent.claims_per_minute is not None and filled(now, agent, load) < 1:
        wait = (1 - filled(now, agent, load)) * 60 / agent.claims_per_minute
        return RateLimited(
            f"{agent.name} may claim {agent.claims_per_minute:g} items a minute; try again in {times.span(wait + 0.5)}",
            agent=agent.name,
            claims_per_minute=agent.claims_per_minute,
            retry_after_seconds=int(wait * 1000 + 1) / 1000,  # rounded up: a little early would be refused again
        )
    return None


def room(now: int, agent: Agent, load: Load, n: int) -> int:
    """How many of `n` wanted items the limits leave room for."""
    if agent.max_claims is not None:
        n = min(n, agent.max_claims - load.held)
    if agent.max_claims_total is not None:
        n = min(n, agent.max_claims_total - load.held_total)
    if agent.claims_per_minute is not None:
        n = min(n, int(filled(now, agent, load)))
    return max(0, n)


def filled(now: int, agent: Agent, load: Load) -> float:
    """What is in the bucket by now."""
    if agent.claims_per_minute is None:
        return float(agent.claims_burst)
    minutes = max(0, now - load.bucket_at) / 60_000
    return min(float(agent.claims_burst), load.bucket + minutes * agent.claims_per_minute)


def may_take(agent: Agent, action: str, approved: bool) -> bool:
    """Whether the policy hands an item of this action to the agent; an approved one only to who may do it."""
    if not (agent.allowed_actions or agent.sensitive_actions):
        return True
    allowed, sensitive = action in agent.allowed_actions, action in agent.sensitive_actions
    return (allowed and not sensitive) or (allowed and approved) or (sensitive and not allowed and not approved)


def may_finish(agent: Agent, item: Item) -> bool:
    """Whether the agent may end this item as done, or has to submit a draft of it."""
    if not (agent.allowed_actions or agent.sensitive_actions):
        return True
    return item.action in agent.allowed_actions and (item.approved or item.action not in agent.sensitive_actions)


def not_allowed(agent: Agent, item: Item) -> Forbidden:
    approved = "approved " if item.approved else ""
    no = f"{agent.name} is not allowed the {approved}action {item.action}"
    if item.action in agent.allowed_actions:
        no = f"{agent.name} is allowed the action {item.action} only once it is approved"
    return Forbidden(
        no,
        item=item.id,
        agent=agent.name,
        action=item.action,
    )


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
