"""What a read answers, from rows and what time and dead owners have done to them since (`projection`)."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.model import IN_PROGRESS, READY, STATUSES, Agent, Detail, Holding, Session, SessionView
from dibs.rules import fencing, limits, queueing
from dibs.rules.claiming import Asker
from dibs.rules.resources import conflict
from dibs.store.contract import page
from dibs.store.sql import projection, rows
from dibs.store.sql.tickets import latest_ticket
from dibs.store.sql.upkeep import DIED
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.model import Claim, Item, Reason, Run, SoftClaim, Waiting
    from dibs.rules.decision import State
    from dibs.store.contract import FindDead, Page
    from dibs.store.sql.transaction import Transaction

RUNS_IN_DETAIL = 20
#: Places in the order of items, before all and after all of them.
BEGINNING, THE_END = (-(2.0**53), -1.0), (2.0**53, 2.0**53)
RECENT_RUNS = 10
#: How far `why` counts what `next` would choose first.
AHEAD_MAX = 1000


def get(t: Transaction, item: str, find_dead: FindDead) -> Detail:
    projected = projection.of_item(t, item, find_dead)
    state = projected.states[item]
    found = t.all("runs_of_item", item=item, limit=RUNS_IN_DETAIL)
    return Detail(
        item=state.item,
        claim=state.claim,
        runs=tuple(projected.run(rows.run(row)) for row in found),
        notes=() if state.run is None else t.notes(state.run),
        blockers=state.blockers,
        waiters=tuple(ticket for ticket in state.tickets if queueing.live(ticket, t.now)),
    )


def list_items(
    t: Transaction,
    find_dead: FindDead,
    *,
    statuses: Sequence[str],
    projects: Sequence[str],
    types: Sequence[str],
    labels: Sequence[str],
    after: str | None,
    limit: int,
    bytes_max: int | None,
) -> Page[Item]:
    wanted, moved = statuses or STATUSES, projection.of_board(t, find_dead).states
    begin = BEGINNING if after is None else _place_of(t, after)
    rows_found, more = rows.up_to(
        bytes_max,
        t,
        "list_items",
        passed_over=moved,
        statuses=json_text.dumps(list(wanted)),
        projects=json_text.dumps(list(projects)),
        types=json_text.dumps(list(types)),
        labels=json_text.dumps(list(labels)),
        priority=-begin[0],
        seq=begin[1],
        limit=limit + len(moved),
    )
    end = _place(t, rows.item(rows_found[-1])) if more else THE_END
    found = {item.id: item for item in map(rows.item, rows_found)}
    joined = {
        id: state.item
        for id, state in moved.items()
        if state.item.status in wanted
        and (not projects or state.item.project in projects)
        and (not types or state.item.type in types)
        and set(labels) <= set(state.item.labels)
        and begin < _place(t, state.item) <= end
    }
    if joined:
        found |= joined
        order = t.all("items_in_order", items=json_text.dumps(list(found)), limit=limit)
        found = {id: found[id] for (id,) in order}
    fitting = _fitting([*found.values()][:limit], bytes_max)
    return page(fitting, more=len(fitting) < limit and (more or len(fitting) < len(found)))


def _fitting(items: Sequence[Item], size_max: int | None) -> Sequence[Item]:
    """As `rows.up_to`, of what comes from several places."""
    size = 0
    for number, item in enumerate(items if size_max is not None else ()):
        if size_max is not None and size >= size_max:
            return items[:number]
        size += len(item.title) + len(item.body) + len(json_text.dumps(item.payload))
    return items


def runs(
    t: Transaction,
    find_dead: FindDead,
    *,
    item: str | None,
    session: str | None,
    agent: str | None,
    after: tuple[str, int] | None,
    limit: int,
    bytes_max: int | None,
) -> Page[Run]:
    projected = projection.of_board(t, find_dead)
    before = None if after is None else _seq(t, *after)
    found, more = rows.up_to(
        bytes_max, t, "list_runs", item=item, session=session, agent=agent, before=before, limit=limit
    )
    return page((projected.run(rows.run(row)) for row in found), more=more)


def sessions(t: Transaction, find_dead: FindDead, *, ended: bool, limit: int) -> tuple[SessionView, ...]:
    projected = projection.of_board(t, find_dead)
    views = []
    for row in t.all("list_sessions", ended=ended, limit=limit + len(projected.dead)):
        session = rows.session(row)
        held = t.held(session.id)
        if session.id in projected.dead:
            session, held = session.replace(ended_at=t.now, end_reason=DIED), 0
        if ended or session.ended_at is None:
            recent = t.all("runs_of_session", session=session.id, limit=RECENT_RUNS)
            last = tuple(projected.run(rows.run(run)) for run in recent)
            views.append(SessionView(session=session, claims=held, recent=last))
    return tuple(views[:limit])


def who(t: Transaction, find_dead: FindDead) -> tuple[Holding, ...]:
    kinds: dict[str, str | None] = dict(t.all("in_progress"))
    projected = projection.Projection(t, t.states(kinds), projection.dead_sessions(t, find_dead))
    states = [projected.states[item] for item in kinds]
    hard = [_holding(t, state, kinds[state.item.id]) for state in states if state.item.status == IN_PROGRESS]
    claims = [rows.soft_claim(row) for row in t.all("live_soft_claims", now=t.now)]
    soft = [_soft_holding(t, claim) for claim in claims if claim.session not in projected.dead]
    return (*hard, *soft)


def ticket(t: Transaction, item: str, session: str, find_dead: FindDead) -> Waiting:
    projected = projection.of_item(t, item, find_dead)
    state = projected.states[item]
    latest = latest_ticket(t, item, session)
    return queueing.waiting(t.now, state, projected.closed.get(latest.id, latest))


def why(t: Transaction, item: str, session: str | None, agent: str | None, find_dead: FindDead) -> tuple[Reason, ...]:
    from dibs.rules.explain import why

    projected = projection.of_board(t, find_dead)
    state = projection.of_item(t, item, find_dead).states[item]
    died = {claim.item: claim for claim in projected.ended_claims()}
    asker = _asker(t, session, agent, state.item.project, died)
    ahead = t.ahead_of(asker, state.item, AHEAD_MAX) + _freed_ahead_of(t, asker, state.item, projected)
    return why(t.now, state, asker, ahead, owner_died=item in died)


def _asker(t: Transaction, session: str | None, agent: str | None, project: str, died: dict[str, Claim]) -> Asker:
    """Who asks, without what dead owners held; without a session, a new one of the agent, or of one without limits."""
    if session is not None:
        asker = t.asker(session, agent, project)
    else:
        row = None if agent is None else t.one("agent_by_name", name=agent)
        new = Agent(name=agent or "") if row is None else rows.agent(row)
        nobody = Session(id="", agent=new.name)
        asker = Asker(session=nobody, agent=new, load=t.load(nobody, new), holds=t.holds(project))
    load = asker.load.replace(
        held=asker.load.held - sum(claim.session == asker.session.id for claim in died.values()),
        held_total=asker.load.held_total - sum(claim.agent == asker.agent.name for claim in died.values()),
    )
    return asker.replace(load=load, holds=tuple(hold for hold in asker.holds if hold.item not in died))


def _freed_ahead_of(t: Transaction, asker: Asker, item: Item, projected: projection.Projection) -> int:
    """How many items time has freed, though no row says so, that this asker would be given before this one. What a
    dead owner held does not count: `next` ends its claims only when there is nothing else."""
    free = [
        after.item
        for before, after in projected.changes()
        if after.item.status == READY
        and after.item.offered_to is None
        and (before.claim is None or not fencing.live(before.claim, t.now))
        and limits.may_take(asker.agent, after.item.action, after.item.approved)
        and (not asker.agent.types or after.item.type in asker.agent.types)
        and conflict(after.item, t.holds(after.item.project), asker.session.id) is None
    ]
    place = _place(t, item)
    return sum(_place(t, one) < place for one in free)


def _place_of(t: Transaction, id: str) -> tuple[float, float]:
    row = t.one("item_by_id", id=id)
    if row is None:
        raise Invalid(f"there is no item {id} to go on after; begin anew", field="after", item=id)
    return _place(t, rows.item(row))


def _seq(t: Transaction, item: str, token: int) -> int:
    seq = t.figure("seq_of_run", item=item, token=token)
    if seq is None:
        raise Invalid(f"there is no run {item}:{token} to go on after; begin anew", field="after", item=item)
    return int(seq)


def _place(t: Transaction, item: Item) -> tuple[float, float]:
    return -item.priority, t.figure("seq_of_item", id=item.id) or 0


def _holding(t: Transaction, state: State, kind: str | None) -> Holding:
    claim = state.claim
    if claim is None:
        silent = (t.now - state.item.updated_at) / 1000
        return Holding(
            item=state.item, claim=None, kind=kind, health="unclaimed", age_seconds=silent, remaining_seconds=0
        )
    return Holding(
        item=state.item,
        claim=claim,
        kind=kind,
        health=fencing.health(claim, t.now, t.settings),
        age_seconds=(t.now - claim.claimed_at) / 1000,
        remaining_seconds=fencing.remaining_seconds(claim, t.now),
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
