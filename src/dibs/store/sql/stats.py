"""Figures: `stats` over the whole history of a board, and `pulse` of this instant."""

from __future__ import annotations

from collections import Counter

from dibs.model import READY, STATUSES, Claim, Pulse, Stats
from dibs.rules import fencing
from dibs.rules.webhooks import given_up
from dibs.store.sql import figures, projection, rows, timeline, webhooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from dibs.model import Item
    from dibs.store.sql.projection import Projection
    from dibs.store.sql.transaction import Transaction

#: The most groups of ready items, and live claims, that one pulse reads.
READY_GROUPS_MAX = 1_000
CLAIMS_MAX = 100_000
#: Of how many runs `stats` sums the costs.
COSTS_MAX = 1_000
#: From bad to good. A session has the health of its least healthy claim.
HEALTHS = ("expiring", "warning", "orphaned", "stale", "healthy", "idle")


def stats(t: Transaction, *, agent: str | None = None) -> Stats:
    projected = projection.of_board(t)
    ended_runs = [run for run in projected.ended_runs() if agent in (None, run.agent)]
    outcomes: Counter[str] = Counter()
    duration = 0
    kept = figures.Kept.of_agent(t, agent)
    for (_, outcome), (count, milliseconds) in figures.runs(t, kept, agent).items():
        outcomes[outcome] += count
        duration += milliseconds
    for run in ended_runs:
        outcomes["running"] -= 1
        outcomes[run.outcome or ""] += 1
        duration += (run.ended_at or run.started_at) - run.started_at
    claims, ended = sum(outcomes.values()), outcomes["done"] + outcomes["failed"]
    live_claims, live_sessions, waiters = live_counts(t, projected, agent)
    depth = _ready_depth(t, projected)
    # The board has one counter for all agents; the refusals that it keeps name their agents.
    conflicts = (t.scalar("conflicts") if agent is None else t.scalar("conflicts_of_agent", agent=agent)) or 0
    return Stats(
        items=by_status(t, projected, kept, ready=sum(group["count"] for group in depth)),
        ready=depth,
        active_claims=live_claims,
        waiters=waiters,
        live_sessions=live_sessions,
        total_claims=claims,
        outcomes={outcome: count for outcome, count in outcomes.items() if count},
        conflicts_avoided=int(conflicts),
        claim_success_rate=claims / (claims + conflicts) if claims + conflicts else None,
        failure_rate=outcomes["failed"] / ended if ended else None,
        time_to_claim_seconds=_mean_seconds(*figures.first_claims(t, kept, agent)),
        claim_duration_seconds=_mean_seconds(claims - outcomes["running"], duration),
        cost=timeline.costs_of_latest_runs(t, agent, COSTS_MAX),
    )


def by_status(
    t: Transaction, projected: Projection, kept: figures.Kept | None = None, ready: int | None = None
) -> dict[str, int]:
    """How many items have each status. `kept` and `ready`: the figures, and how many are ready, if they are known."""
    unended = t.all("unended_by_status" if ready is None else "unended_but_ready", project=None)
    statuses = Counter(dict.fromkeys(STATUSES, 0) | dict(unended))
    statuses.update(figures.ended_items(t, kept or figures.Kept.of_items(t)))
    for before, after in projected.changes():
        statuses[before.item.status] -= 1
        statuses[after.item.status] += 1
    return dict(statuses) if ready is None else {**statuses, READY: ready}


def pulse(t: Transaction) -> Pulse:
    projected = projection.of_board(t)
    found = t.all("ready_by_type", limit=READY_GROUPS_MAX)
    groups = Counter({(type, priority): count for type, priority, count, _ in found})
    total = int(found[0][3]) if found else 0
    for item, sign in _ready_changes(projected):
        groups[item.type, max(0, min(10, item.priority))] += sign
        total += sign
    ready = sorted((-count, type, priority) for (type, priority), count in groups.items() if count > 0)
    gone = {claim.item for claim in projected.ended_claims()}
    live = [
        Claim(**dict(zip(Claim._fields, row, strict=True))) for row in t.all("live_claims", now=t.now, limit=CLAIMS_MAX)
    ]
    claims = [claim for claim in live if claim.item not in gone]
    holders: dict[str, str] = {}
    for claim in claims:
        health = fencing.health(claim, t.now, t.settings)
        holders[claim.session] = min(health, holders.get(claim.session, "idle"), key=HEALTHS.index)
    sessions = {health: sum(one == health for one in holders.values()) for health in HEALTHS}
    people = {session for (session,) in t.all("holding_people", now=t.now)}
    _, live_sessions, waiters = live_counts(t, projected)
    approvals, oldest, backed_up_at = t.one("upkeep_figures") or (0, None, 0)
    sessions["idle"] = max(0, live_sessions - len(holders))
    return Pulse(
        ready=[{"type": type, "priority": priority, "count": -count} for count, type, priority in ready],
        ready_total=total,
        active_claims=len(claims),
        heartbeat_lag_seconds=max(
            (t.now - claim.renewed_at for claim in claims if claim.session not in people), default=0
        )
        / 1000,
        sessions=sessions,
        waiters=waiters,
        conflicts_avoided=int(t.scalar("conflicts") or 0),
        waiting_for_person=approvals,
        waiting_for_person_seconds=0.0 if oldest is None else max(0, t.now - oldest) / 1000,
        webhooks_disabled=sum(given_up(webhook) for webhook in webhooks.webhooks(t)),
        last_backup_at=backed_up_at or None,
    )


def _ready_depth(t: Transaction, projected: Projection) -> list[dict[str, Any]]:
    depth = Counter({(-priority, project, type): count for project, type, priority, count in t.all("ready_depth")})
    for item, sign in _ready_changes(projected):
        depth[-item.priority, item.project, item.type] += sign
    return [
        {"project": project, "type": type, "priority": -priority, "count": count}
        for (priority, project, type), count in sorted(depth.items())
        if count
    ]


def _ready_changes(projected: Projection) -> Iterator[tuple[Item, int]]:
    """Items that became ready (1) or are no longer ready (-1) since their rows were written."""
    for before, after in projected.changes():
        sign = (after.item.status == READY) - (before.item.status == READY)
        if sign:
            yield after.item, sign


def live_counts(t: Transaction, projected: Projection, agent: str | None = None) -> tuple[int, int, int]:
    """How many claims, sessions and tickets are live."""
    claims, sessions, tickets = t.one("live_counts", now=t.now, agent=agent) or (0, 0, 0)
    dead = len(projected.dead) if agent is None else sum(_is_of_agent(t, session, agent) for session in projected.dead)
    return (
        claims - sum(agent in (None, claim.agent) for claim in projected.ended_claims()),
        sessions - dead,
        tickets - sum(agent in (None, ticket.agent) for ticket in projected.closed_tickets()),
    )


def _is_of_agent(t: Transaction, session: str, agent: str) -> bool:
    row = t.one("session_by_id", id=session)
    return row is not None and rows.session(row).agent == agent


def _mean_seconds(count: int, milliseconds: int) -> float | None:
    return milliseconds / count / 1000 if count else None
