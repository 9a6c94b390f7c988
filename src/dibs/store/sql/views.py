"""The verbs that read. Each reads one snapshot, without locks; most show items as a claim at this instant would find
them (`projection`)."""

from __future__ import annotations

from dibs.errors import Invalid
from dibs.model import IN_PROGRESS, READY, STATUSES, Agent, Detail, Holding, Session, SessionView
from dibs.rules import fencing, queueing
from dibs.rules.claiming import Claimant, skips
from dibs.rules.refusals import item_not_found
from dibs.rules.sessions import told
from dibs.store.contract import page
from dibs.store.sql import projection, rows
from dibs.store.sql.ticket_verbs import latest_ticket
from dibs.system import collector
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.model import Activity, Claim, Event, Item, Reason, Run, SoftClaim, Waiting
    from dibs.store.contract import Page
    from dibs.store.sql.transaction import Transaction

RUNS_IN_DETAIL = 20
#: Positions before the first and after the last item, in the order of `next`.
BEGINNING, THE_END = (-(2.0**53), -1.0), (2.0**53, 2.0**53)
RECENT_RUNS = 10
#: Sorts after every character of an id.
ABOVE_EVERY_CHARACTER = "~"
#: How far `why` counts the items that `next` would choose first.
AHEAD_MAX = 1000
#: `who` counts every waiter: more than there can be.
EVERY_WAITER = 2**31 - 1


def get(t: Transaction, item: str) -> Detail:
    projected = projection.of_item(t, item)
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


def list_(
    t: Transaction,
    *,
    statuses: Sequence[str] = (),
    projects: Sequence[str] = (),
    types: Sequence[str] = (),
    labels: Sequence[str] = (),
    subject: str | None = None,
    after: str | None = None,
    limit: int,
    bytes_max: int | None = None,
) -> Page[Item]:
    wanted, outdated = statuses or STATUSES, projection.of_board(t).states
    begin = BEGINNING if after is None else _position_of(t, after)
    rows_found, more = rows.until_size(
        bytes_max,
        t,
        "list_items",
        passed_over=outdated,
        statuses=json_text.dumps(list(wanted)),
        projects=json_text.dumps(list(projects)),
        types=json_text.dumps(list(types)),
        labels=json_text.dumps(list(labels)),
        subject=subject,
        priority=-begin[0],
        seq=begin[1],
        limit=limit + len(outdated),
    )
    end = position(t, rows.item(rows_found[-1])) if more else THE_END
    found = {item.id: item for item in map(rows.item, rows_found)}
    matching = {
        id: state.item
        for id, state in outdated.items()
        if state.item.status in wanted
        and (not projects or state.item.project in projects)
        and (not types or state.item.type in types)
        and set(labels) <= set(state.item.labels)
        and subject in (None, state.item.subject)
        and begin < position(t, state.item) <= end
    }
    if matching:
        found |= matching
        order = t.all("items_in_order", items=json_text.dumps(list(found)), limit=limit)
        found = {id: found[id] for (id,) in order}
    fitting = _fitting([*found.values()][:limit], bytes_max)
    return page(fitting, more=len(fitting) < limit and (more or len(fitting) < len(found)))


def _fitting(items: Sequence[Item], size_max: int | None) -> Sequence[Item]:
    """`rows.until_size` for items that do not come from one statement."""
    size = 0
    for number, item in enumerate(items if size_max is not None else ()):
        if size_max is not None and size >= size_max:
            return items[:number]
        size += len(item.title) + len(item.body) + len(json_text.dumps(item.payload))
    return items


def ids(t: Transaction, prefix: str, *, limit: int) -> tuple[str, ...]:
    beyond = prefix + ABOVE_EVERY_CHARACTER
    return tuple(id for (id,) in t.all("ids", prefix=prefix, beyond=beyond, limit=limit))


def runs(
    t: Transaction,
    *,
    item: str | None = None,
    session: str | None = None,
    agent: str | None = None,
    after: tuple[str, int] | None = None,
    limit: int,
    bytes_max: int | None = None,
) -> Page[Run]:
    projected = projection.of_board(t)
    if item is not None and t.one("item_by_id", id=item) is None:
        raise item_not_found(item)
    before = None if after is None else _seq_of_run(t, *after)
    found, more = rows.until_size(
        bytes_max, t, "list_runs", item=item, session=session, agent=agent, before=before, limit=limit
    )
    return page((projected.run(rows.run(row)) for row in found), more=more)


def sessions(t: Transaction, *, ended: bool = False, limit: int) -> tuple[SessionView, ...]:
    projected = projection.of_board(t)
    views = []
    for row in t.all("list_sessions", ended=ended, limit=limit + len(projected.dead)):
        session = rows.session(row)
        held = t.held(session.id)
        if session.id in projected.dead:
            session, held = session.replace(ended_at=t.now, end_reason=projected.dead[session.id]), 0
        if ended or session.ended_at is None:
            recent = t.all("runs_of_session", session=session.id, limit=RECENT_RUNS)
            last = tuple(projected.run(rows.run(run)) for run in recent)
            views.append(SessionView(session=told(session), claims=held, recent=last))
    return tuple(views[:limit])


def who(t: Transaction) -> tuple[Holding, ...]:
    projected = projection.of_board(t)
    waiters = _live_waiters(t, projected)
    with collector.Paused():
        lines = [line for row in t.stream("items_with_holders") if (line := _hard(t, row, projected, waiters))]
        lines.sort(key=_by_agent_and_age)
    softly = [rows.soft_claim(row) for row in t.all("live_soft_claims", now=t.now)]
    soft = [_soft_holding(t, claim) for claim in softly if claim.session not in projected.dead]
    return (*lines, *soft)


def ticket(t: Transaction, item: str, *, session: str) -> Waiting:
    projected = projection.of_item(t, item)
    state = projected.states[item]
    latest = latest_ticket(t, item, session)
    return queueing.waiting(t.now, state, projected.closed.get(latest.id, latest))


def why(t: Transaction, item: str, *, session: str | None = None, agent: str | None = None) -> tuple[Reason, ...]:
    from dibs.rules.explain import why

    projected = projection.of_board(t)
    state = projection.of_item(t, item).states[item]
    died = {claim.item: claim for claim in projected.ended_claims()}
    me = claimant(t, session, agent, state.item.project, died)
    ahead = t.ahead_of(me, state.item, AHEAD_MAX) + _freed_ahead_of(t, me, state.item, projected)
    return why(t.now, state, me, ahead, owner_died=item in died)


def events(
    t: Transaction,
    until: int,
    *,
    after: int | None = None,
    item: str | None = None,
    newest: bool = False,
    limit: int,
    bytes_max: int | None = None,
) -> Page[Event]:
    floor = int(t.scalar("meta", name="event_floor") or 0)
    if after is not None and after < floor:
        raise Invalid(
            f"events up to {floor} were pruned, so a feed after {after} would miss some; start without a cursor",
            field="after",
            event_floor=floor,
        )
    feed = "feed" if item is None else "feed_of_item"
    name = f"{feed}_newest" if newest else feed
    parameters = {} if item is None else {"item": item}
    found, more = rows.until_size(bytes_max, t, name, **parameters, after=after or 0, until=until, limit=limit)
    events = map(rows.event, found)
    return page(reversed([*events]) if newest else events, more=more)


def agents(t: Transaction) -> tuple[Agent, ...]:
    return tuple(map(rows.agent, t.all("list_agents")))


def activity(t: Transaction, *, item: str | None = None, agent: str | None = None, limit: int) -> tuple[Activity, ...]:
    return tuple(map(rows.activity, t.all("list_activity", item=item, agent=agent, limit=limit)))


def due_seconds(t: Transaction, item: str | None = None) -> float | None:
    due_at = t.scalar("due") if item is None else t.scalar("due_of_item", item=item)
    return None if due_at is None else max(0, due_at - t.now) / 1000


def claimant(
    t: Transaction, session: str | None, agent: str | None, project: str | None, died: dict[str, Claim]
) -> Claimant:
    """The claimant without the claims of dead owners. Without a session, it is a new session of the agent; without an
    agent, of one without limits."""
    if session is not None:
        found = t.claimant(session, agent, project)
    else:
        row = None if agent is None else t.one("agent_by_name", name=agent)
        new = Agent(name=agent or "") if row is None else rows.agent(row)
        unnamed = Session(id="", agent=new.name)
        holds = () if project is None else t.holds(project)
        found = Claimant(session=unnamed, agent=new, load=t.load(unnamed, new), holds=holds)
    load = found.load.replace(
        held=found.load.held - sum(claim.session == found.session.id for claim in died.values()),
        held_total=found.load.held_total - sum(claim.agent == found.agent.name for claim in died.values()),
    )
    return found.replace(load=load, holds=tuple(hold for hold in found.holds if hold.item not in died))


def _freed_ahead_of(t: Transaction, claimant: Claimant, item: Item, projected: projection.Projection) -> int:
    """How many items that are ready only in the projection `next` would give to this claimant before this one. Items of
    dead owners do not count: `next` ends their claims only when it finds no other item."""
    free = [
        after.item
        for before, after in projected.changes()
        if after.item.status == READY
        and after.item.offered_to is None
        and (before.claim is None or not fencing.live(before.claim, t.now))
        and (not claimant.agent.types or after.item.type in claimant.agent.types)
        and not skips(claimant.replace(holds=t.holds(after.item.project)), after.item)
    ]
    its = position(t, item)
    return sum(position(t, one) < its for one in free)


def _position_of(t: Transaction, id: str) -> tuple[float, float]:
    row = t.one("item_by_id", id=id)
    if row is None:
        raise Invalid(f"there is no item {id} to continue after; start without a cursor", field="after", item=id)
    return position(t, rows.item(row))


def _seq_of_run(t: Transaction, item: str, token: int) -> int:
    seq = t.scalar("seq_of_run", item=item, token=token)
    if seq is None:
        raise Invalid(
            f"there is no run {item}:{token} to continue after; start without a cursor", field="after", item=item
        )
    return int(seq)


def position(t: Transaction, item: Item) -> tuple[float, float]:
    return -item.priority, t.scalar("seq_of_item", id=item.id) or 0


def _live_waiters(t: Transaction, projected: projection.Projection) -> dict[str, int]:
    """How many sessions wait for each item that any waits for."""
    found: dict[str, int] = {}
    for id, item, *_ in t.all("live_queues", now=t.now, limit=EVERY_WAITER):
        if id not in projected.closed:
            found[item] = found.get(item, 0) + 1
    return found


def _hard(t: Transaction, row: rows.Row, projected: projection.Projection, waiters: dict[str, int]) -> Holding | None:
    """The line of an item in progress with its holder, unless the projection ended the claim."""
    state = projected.states.get(row[0])
    item, claim = rows.item_with_claim(row[:-2]) if state is None else (state.item, state.claim)
    if item.status != IN_PROGRESS:
        return None
    if claim is None:
        silent = (t.now - item.updated_at) / 1000
        return Holding(item=item, claim=None, kind=None, health="unclaimed", age_seconds=silent, remaining_seconds=0)
    return Holding.of(
        {
            "item": item,
            "claim": claim,
            "kind": row[-2],
            "health": fencing.health(claim, t.now, t.settings),
            "age_seconds": (t.now - claim.claimed_at) / 1000,
            "remaining_seconds": fencing.remaining_seconds(claim, t.now),
            "waiters": waiters.get(item.id, 0),
            "soft": None,
            "parent": row[-1],
        }
    )


def _by_agent_and_age(holding: Holding) -> tuple[bool, str, int, str]:
    """The order of `who`. Items without a claim come last."""
    claim, id = holding.claim, holding.item.id
    return (True, "", 0, id) if claim is None else (False, claim.agent, claim.claimed_at, id)


def _soft_holding(t: Transaction, soft: SoftClaim) -> Holding:
    row = t.one("session_by_id", id=soft.session)
    session = None if row is None else rows.session(row)
    return Holding(
        item=t.state(soft.item).item,
        claim=None,
        kind=None if session is None else session.kind,
        parent=None if session is None else session.parent,
        health="soft",
        age_seconds=(t.now - soft.claimed_at) / 1000,
        remaining_seconds=max(0, soft.expires_at - t.now) / 1000,
        soft=soft,
    )
