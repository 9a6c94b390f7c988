"""Reading a board: each verb one snapshot, no lock, nobody waits for a reader."""

from __future__ import annotations

from abc import abstractmethod

from dibs import jsontext
from dibs.errors import Invalid
from dibs.model import STATUSES, Claim, Detail, Holding, Owner, Pulse, SessionView, Stats
from dibs.rules import holding, queueing
from dibs.store.tables import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from dibs.model import Activity, Agent, Event, Item, Run, SoftClaim
    from dibs.store.tables.transaction import Transaction

    T = TypeVar("T")

RUNS_IN_DETAIL = 20
RECENT_RUNS = 10
EVER = 2**63 - 1
#: What one pulse looks at: groups of ready items, and live claims.
READY_GROUPS_MAX = 1_000
CLAIMS_MAX = 100_000
#: From bad to good: a session is as healthy as its least healthy claim.
HEALTHS = ("expiring", "warning", "orphaned", "stale", "healthy", "idle")


class Reading:
    @abstractmethod
    def read(self, work: Callable[[Transaction], T]) -> T: ...

    def feed_end(self) -> int:
        """The event up to which nothing can appear in the feed any more; looked up before the snapshot is taken."""
        return EVER

    def get(self, item: str) -> Detail:
        def get(t: Transaction) -> Detail:
            state = t.state(item)
            live = state.claim if state.claim is not None and holding.live(state.claim, t.now) else None
            found = t.all("runs_of_item", item=item, limit=RUNS_IN_DETAIL)
            latest = tuple(rows.run(row) for row in found)
            notes = () if state.run is None else t.notes(state.run)
            waiters = tuple(ticket for ticket in state.tickets if queueing.live(ticket, t.now))
            return Detail(
                item=state.item, claim=live, runs=latest, notes=notes, blockers=state.blockers, waiters=waiters
            )

        return self.read(get)

    def list(
        self,
        *,
        statuses: Sequence[str] = (),
        projects: Sequence[str] = (),
        types: Sequence[str] = (),
        labels: Sequence[str] = (),
        limit: int,
    ) -> tuple[Item, ...]:
        filters = {
            "statuses": jsontext.dumps(list(statuses or STATUSES)),
            "projects": jsontext.dumps(list(projects)),
            "types": jsontext.dumps(list(types)),
            "labels": jsontext.dumps(list(labels)),
        }
        return self._many(rows.item, "list_items", **filters, limit=limit)

    def events(
        self, *, after: int | None = None, item: str | None = None, newest: bool = False, limit: int
    ) -> tuple[Event, ...]:
        until = self.feed_end() if item is None else EVER

        def events(t: Transaction) -> tuple[Event, ...]:
            cursor = _cursor(t, after)
            name = ("feed" if item is None else "feed_of_item") + ("_newest" if newest else "")
            parameters = {} if item is None else {"item": item}
            found = [rows.event(row) for row in t.all(name, **parameters, after=cursor, until=until, limit=limit)]
            return tuple(reversed(found) if newest else found)

        return self.read(events)

    def runs(
        self, *, item: str | None = None, session: str | None = None, agent: str | None = None, limit: int
    ) -> tuple[Run, ...]:
        return self._many(rows.run, "list_runs", item=item, session=session, agent=agent, limit=limit)

    def activity(self, *, item: str | None = None, agent: str | None = None, limit: int) -> tuple[Activity, ...]:
        return self._many(rows.activity, "list_activity", item=item, agent=agent, limit=limit)

    def agents(self) -> tuple[Agent, ...]:
        return self._many(rows.agent, "list_agents")

    def sessions(self, *, ended: bool = False, limit: int) -> tuple[SessionView, ...]:
        def sessions(t: Transaction) -> tuple[SessionView, ...]:
            views = []
            for row in t.all("list_sessions", ended=ended, limit=limit):
                session = rows.session(row)
                recent = t.all("runs_of_session", session=session.id, limit=RECENT_RUNS)
                last = tuple(rows.run(run) for run in recent)
                views.append(SessionView(session=session, claims=t.held(session.id), recent=last))
            return tuple(views)

        return self.read(sessions)

    def owners(self, *, boot_id: str, pid_namespace: int) -> tuple[tuple[str, Owner], ...]:
        def owners(t: Transaction) -> tuple[tuple[str, Owner], ...]:
            found = t.all("owned_sessions", boot_id=boot_id, pid_namespace=pid_namespace)
            return tuple((id, Owner(**dict(zip(Owner._fields, owner, strict=True)))) for id, *owner in found)

        return self.read(owners)

    def who(self) -> tuple[Holding, ...]:
        def who(t: Transaction) -> tuple[Holding, ...]:
            hard = [_holding(t, item, kind) for item, _, kind in t.all("in_progress", now=t.now)]
            soft = [_soft_holding(t, rows.soft_claim(row)) for row in t.all("live_soft_claims", now=t.now)]
            return (*hard, *soft)

        return self.read(who)

    def stats(self, *, agent: str | None = None) -> Stats:
        return self.read(lambda t: _stats(t, agent))

    def pulse(self) -> Pulse:
        return self.read(_pulse)

    def due_seconds(self, item: str | None = None) -> float | None:
        def due(t: Transaction) -> float | None:
            row = t.one("due") if item is None else t.one("due_of_item", item=item)
            return None if row is None or row[0] is None else max(0, row[0] - t.now) / 1000

        return self.read(due)

    def _many(self, make: Callable[[tuple[Any, ...]], T], statement: str, /, **parameters: Any) -> tuple[T, ...]:
        return self.read(lambda t: tuple(make(row) for row in t.all(statement, **parameters)))


def _holding(t: Transaction, item: str, kind: str | None) -> Holding:
    state = t.state(item)
    claim = state.claim
    if claim is None or not holding.live(claim, t.now):
        silent = (t.now - state.item.updated_at) / 1000
        health = "unclaimed" if claim is None else "expired"
        return Holding(
            item=state.item,
            claim=None,
            kind=kind,
            health=health,
            age_seconds=silent,
            remaining_seconds=0,
            lapsed=claim,
        )
    return Holding(
        item=state.item,
        claim=claim,
        kind=kind,
        health=holding.health(claim, t.now, t.settings),
        age_seconds=(t.now - claim.claimed_at) / 1000,
        remaining_seconds=holding.remaining_seconds(claim, t.now),
        waiters=sum(queueing.live(ticket, t.now) for ticket in state.tickets),
    )


def _soft_holding(t: Transaction, soft: SoftClaim) -> Holding:
    row = t.one("session_by_id", id=soft.session)
    return Holding(
        item=t.state(soft.item).item,
        claim=None,
        kind=None if row is None else rows.session(row).kind,
        health="soft",
        age_seconds=(t.now - soft.claimed_at) / 1000,
        remaining_seconds=max(0, soft.expires_at - t.now) / 1000,
        soft=soft,
    )


def _cursor(t: Transaction, after: int | None) -> int:
    """Where to read on from; a cursor from before what was pruned would skip something, and is refused."""
    floor = int(_figure(t, "meta", name="event_floor") or 0)
    if after is None:
        return 0
    if after < floor:
        raise Invalid(
            f"events up to {floor} were pruned, so reading on after {after} would skip some; start without a cursor",
            field="after",
            event_floor=floor,
        )
    return after


def _stats(t: Transaction, agent: str | None) -> Stats:
    statuses = dict.fromkeys(STATUSES, 0) | dict(t.all("count_by_status"))
    outcomes = dict(t.all("count_by_outcome", agent=agent))
    depth = [dict(zip(("project", "type", "priority", "count"), row, strict=True)) for row in t.all("ready_depth")]
    claims, ended = sum(outcomes.values()), outcomes.get("done", 0) + outcomes.get("failed", 0)
    # The counter of the whole board is not kept by agent; what is kept of each refusal names its agent.
    conflicts = (_figure(t, "conflicts") if agent is None else _figure(t, "conflicts_of_agent", agent=agent)) or 0
    return Stats(
        items=statuses,
        ready=depth,
        active_claims=int(_figure(t, "count_live_claims", now=t.now, agent=agent) or 0),
        waiters=int(_figure(t, "count_waiters", now=t.now, agent=agent) or 0),
        live_sessions=int(_figure(t, "count_live_sessions", agent=agent) or 0),
        total_claims=claims,
        outcomes=outcomes,
        conflicts_avoided=int(conflicts),
        claim_success_rate=claims / (claims + conflicts) if claims + conflicts else None,
        failure_rate=outcomes.get("failed", 0) / ended if ended else None,
        time_to_claim_seconds=_figure(t, "mean_time_to_claim", agent=agent),
        claim_duration_seconds=_figure(t, "mean_claim_duration", agent=agent),
    )


def _pulse(t: Transaction) -> Pulse:
    ready = t.all("ready_by_type", limit=READY_GROUPS_MAX)
    claims = [
        Claim(**dict(zip(Claim._fields, row, strict=True))) for row in t.all("live_claims", now=t.now, limit=CLAIMS_MAX)
    ]
    holders: dict[str, str] = {}
    for claim in claims:
        found = holding.health(claim, t.now, t.settings)
        holders[claim.session] = min(found, holders.get(claim.session, "idle"), key=HEALTHS.index)
    sessions = {health: sum(one == health for one in holders.values()) for health in HEALTHS}
    sessions["idle"] = max(0, int(_figure(t, "count_live_sessions", agent=None) or 0) - len(holders))
    return Pulse(
        ready=[{"type": type, "priority": priority, "count": count} for type, priority, count, _ in ready],
        ready_total=int(ready[0][3]) if ready else 0,
        active_claims=len(claims),
        heartbeat_lag_seconds=max((t.now - claim.renewed_at for claim in claims), default=0) / 1000,
        sessions=sessions,
        waiters=int(_figure(t, "count_waiters", now=t.now, agent=None) or 0),
        conflicts_avoided=int(_figure(t, "conflicts") or 0),
    )


def _figure(t: Transaction, statement: str, /, **parameters: Any) -> float | None:
    row = t.one(statement, **parameters)
    return None if row is None else row[0]
