"""The claim path on SQLite: claim, recover, next, heartbeat, progress, and the ends of a run."""

from __future__ import annotations

from dibs.errors import ClaimExpired, DibsError
from dibs.model import Finished, Grant, Heartbeat
from dibs.rules import claiming, ending, fencing, limits
from dibs.rules.overdue import due_steps
from dibs.store.sql import rows
from dibs.store.sql.dispatch import REAPS_MAX
from dibs.text import json_text
from dibs.text.json_text import as_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dibs.model import Claim, Ended, Item, Lost, Renewal, Run, Session
    from dibs.rules.claiming import Claimant
    from dibs.rules.decision import Decision, State, Step
    from dibs.store.sql.transaction import Transaction

#: How many overdue items of each kind `next` records before it chooses. It chooses among the others as well.
OVERDUE_MAX = 32


def claim(
    t: Transaction,
    item: str,
    *,
    session: str,
    agent: str | None = None,
    ttl_seconds: float | None = None,
    unless_after: int | None = None,
) -> Grant:
    def decide() -> tuple[State, Claimant, Decision]:
        state = t.state(item)
        claimant = t.claimant(session, agent, state.item.project if state.item.resources else None)
        decision = claiming.claim(
            t.now, state, claimant, ttl_seconds=ttl_seconds, settings=t.settings, unless_after=unless_after
        )
        return state, claimant, decision

    state, claimant, decision = decide()
    for _ in range(REAPS_MAX):
        refusal, is_offered = decision.refusal, state.item.offered_to == session
        # Once it is written, the refusal of an offer has passed the item on.
        if not (refusal and is_offered and claiming.is_caused_by_a_claim(refusal) and t.reap(t.dead_owners())):
            break
        state, claimant, decision = decide()
    t.write(decision)
    t.touch(claimant.session)
    if decision.renewed is not None:
        row = t.one("run_before", item=item, token=decision.renewed.token)
        before = None if row is None else rows.run(row)
        return _grant(t, state.item, decision.renewed, before).replace(renewed=True)
    t.spend(claimant, 1)
    # If the previous claim expired just now, its run is the previous run.
    before = next((step.run for step in reversed(decision.steps[:-1]) if step.run is not None), state.run)
    return _grant(t, decision.steps[-1].item, decision.steps[-1].claim, before)


def recover(
    t: Transaction, item: str, *, session: str, token: int | None = None, ttl_seconds: float | None = None
) -> Grant:
    if t.one("item_by_id", id=item) is not None:
        t.session(session)  # an ended session recovers nothing
    try:
        _, live = t.fenced(item, session, token)
        token = live.token
    except ClaimExpired as error:
        if not claiming.recoverable(error):
            raise
        token = error.facts["token"]
    return claim(t, item, session=session, ttl_seconds=ttl_seconds, unless_after=token)


def next_(
    t: Transaction,
    *,
    session: str,
    agent: str | None = None,
    types: Sequence[str] = (),
    projects: Sequence[str] = (),
    labels: Sequence[str] = (),
    n: int = 1,
    ttl_seconds: float | None = None,
    done: Mapping[str, int] | None = None,
) -> tuple[Grant, ...]:
    from dibs.store.sqlite import choose_next

    claimant = t.claimant(session, agent)
    ttl = claiming.ttl(claimant.session.kind, ttl_seconds, t.settings)
    if done:
        _end_all_as_done(t, done, session)
        claimant = claimant.replace(load=t.load(claimant.session, claimant.agent))
    recorded = record_overdue(t, OVERDUE_MAX)
    full = limits.refusal(t.now, claimant.agent, claimant.load)
    if full is not None:
        t.refuse(full)
    grants = []
    room = limits.room(t.now, claimant.agent, claimant.load, n)
    is_more_overdue = OVERDUE_MAX in map(len, recorded.values())
    due, states = choose_next.best(t, claimant, types, projects, labels, room, is_more_overdue=is_more_overdue)
    for step in due:
        t.apply(step)
    for state in states:
        step = claiming.grant(t.now, state, claimant.session, ttl)
        t.apply(step)
        grants.append(_grant(t, step.item, step.claim, state.run))
    if grants:
        t.spend(claimant, len(grants))
        t.touch(claimant.session)
    elif fencing.is_idle_due(claimant.session, t.now):
        t.touch_session(session)
    return tuple(grants)


def record_overdue(t: Transaction, limit: int) -> dict[str, list[Item]]:
    """Record expired claims, schedules that have come and lapsed offers, oldest first and at most `limit` of each.
    Returns the items by statement."""
    moved: dict[str, list[Item]] = {"expired_items": [], "due_items": [], "lapsed_offers": []}
    due = t.scalar("due")
    if due is None or due > t.now:
        return moved
    for statement in moved:
        for (item,) in t.all(statement, now=t.now, limit=limit):
            steps, state = due_steps(t.now, t.state(item), t.settings)
            for step in steps:
                t.apply(step)
            moved[statement].append(state.item)
    return moved


def heartbeat(
    t: Transaction,
    *,
    session: str,
    holding: Mapping[str, int | None] | None = None,
    known_event: int | None = None,
    at_most_every_seconds: float | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Heartbeat:
    me = t.session(session)
    new_meta = _merged_meta(me, meta) if meta else None
    forgotten = [] if holding is None else _release_forgotten(t, session, holding, known_event)
    interval = fencing.counted_interval(at_most_every_seconds, t.settings)
    every = round((interval or 0) * 1000)
    parameters = {"session": session, "now": t.now, "every": every}
    kept = renewed = [rows.claim(row) for row in t.all("renew_session", **parameters)]
    t.run("renew_soft_claims", parameters)
    if every:
        kept = [rows.claim(row) for row in t.all("live_claims_of_session", session=session, now=t.now)]
    if holding is None:
        lapsed = map(rows.claim, t.all("lapsed_claims_of_session", session=session, now=t.now))
        holding = {one.item: one.token for one in lapsed}
    lost = _lost(t, session, holding)
    if renewed or (not kept and fencing.is_session_due(me, t.now, interval)):
        if new_meta is not None:
            t.run("store_session_meta", {"id": session, "meta": json_text.dumps(new_meta), "now": t.now})
        t.touch_session(session)
    now, settings, due = t.now, t.settings, {one.item for one in renewed}
    return Heartbeat(
        session=session,
        renewed=tuple(
            fencing.renewal(one, now, settings, renewed=one.item in due) for one in sorted(kept, key=lambda c: c.item)
        ),
        lost=tuple(lost),
        forgotten=tuple(sorted(forgotten)),
        heartbeat_seconds=min([settings.heartbeat_seconds, *(fencing.interval_seconds(one, settings) for one in kept)]),
        event=int(t.scalar("latest_event") or 0),
    )


def _merged_meta(session: Session, changes: Mapping[str, Any]) -> dict[str, Any]:
    from dibs.check import META_BYTES_MAX
    from dibs.rules.sessions import merged_meta

    return merged_meta(session.meta, changes, META_BYTES_MAX)


def _release_forgotten(
    t: Transaction, session: str, holding: Mapping[str, int | None], known_event: int | None
) -> list[str]:
    """Release the live claims that the caller knew of and left out of `holding`."""
    forgotten = []
    for row in t.all("live_claims_of_session", session=session, now=t.now):
        live = rows.claim(row)
        if live.item not in holding and fencing.is_known(_claim_event(t, live), known_event):
            state = t.state(live.item)
            t.apply_with_effects(state, ending.forget(t.now, state, live))
            forgotten.append(live.item)
    return forgotten


def _claim_event(t: Transaction, claim: Claim) -> int:
    return int(t.scalar("first_event_of_claim", item=claim.item, token=claim.token) or 0)


def _lost(t: Transaction, session: str, holding: Mapping[str, int | None]) -> list[Lost]:
    """The items of `holding` that the session does not hold."""
    lost = []
    for item, token in sorted(holding.items()):
        try:
            t.fenced(item, session, token)
        except DibsError as error:
            lost.append(fencing.lost(item, token, error))
    return lost


def renew(
    t: Transaction,
    item: str,
    *,
    session: str,
    token: int | None = None,
    ttl_seconds: float | None = None,
    at_most_every_seconds: float | None = None,
) -> Renewal:
    _, live = t.fenced(item, session, token)
    kind = t.session(session).kind
    ttl = None if ttl_seconds is None else claiming.ttl(kind, ttl_seconds, t.settings)
    every = fencing.counted_interval(at_most_every_seconds, t.settings)
    if not fencing.is_due(live, t.now, every, ttl):
        return fencing.renewal(live, t.now, t.settings, renewed=False)
    renewed = fencing.renew(live, t.now, ttl)
    t.run_one("renew_claim", rows.plain(renewed))
    t.touch_session(session)
    return fencing.renewal(renewed, t.now, t.settings)


def progress(
    t: Transaction, item: str, *, session: str, token: int | None = None, note: str, meta: Mapping[str, Any]
) -> Renewal:
    state, live = t.fenced(item, session, token)
    step = fencing.progress(t.now, state, live, note=note, meta=as_object(meta))
    t.apply(step)
    t.touch_session(session)
    assert step.claim is not None
    return fencing.renewal(step.claim, t.now, t.settings)


def release(
    t: Transaction,
    item: str,
    *,
    session: str,
    token: int | None = None,
    reason: str | None = None,
    park: bool = False,
) -> Ended:
    state, live = t.fenced(item, session, token)
    return _end(t, session, state, ending.release(t.now, state, live, reason=reason, park=park))


def done(
    t: Transaction,
    item: str,
    *,
    session: str,
    token: int | None = None,
    note: str | None = None,
    links: Mapping[str, Any],
    cost: Mapping[str, Any],
) -> Ended:
    state, live = t.fenced(item, session, token)
    return _end(t, session, state, _done(t, state, live, note, as_object(links), as_object(cost)))


def done_many(t: Transaction, holding: Mapping[str, int | None], *, session: str) -> Finished:
    finished, lost = [], []
    for item, token in sorted(holding.items()):
        try:
            state, live = t.fenced(item, session, token)
            step = _done(t, state, live)
        except DibsError as error:
            lost.append(fencing.lost(item, token, error))
        else:
            finished.append(t.end(state, step))
    if finished:
        t.touch_session(session)
    return Finished(ended=tuple(finished), lost=tuple(lost))


def fail(
    t: Transaction,
    item: str,
    *,
    session: str,
    token: int | None = None,
    reason: str | None = None,
    links: Mapping[str, Any],
    cost: Mapping[str, Any],
) -> Ended:
    from dibs import randomness

    state, live = t.fenced(item, session, token)
    step = ending.fail(
        t.now,
        state,
        live,
        reason=reason,
        links=as_object(links),
        cost=as_object(cost),
        settings=t.settings,
        uniform=randomness.uniform(),
    )
    return _end(t, session, state, step)


def submit(
    t: Transaction,
    item: str,
    *,
    session: str,
    token: int | None = None,
    draft: str,
    note: str | None = None,
    links: Mapping[str, Any],
    cost: Mapping[str, Any],
) -> Ended:
    state, live = t.fenced(item, session, token)
    step = ending.submit(t.now, state, live, draft=draft, note=note, links=as_object(links), cost=as_object(cost))
    return _end(t, session, state, step)


def _end(t: Transaction, session: str, state: State, step: Step) -> Ended:
    ended = t.end(state, step)
    t.touch_session(session)
    return ended


def _done(
    t: Transaction,
    state: State,
    claim: Claim,
    note: str | None = None,
    links: dict[str, Any] | None = None,
    cost: dict[str, Any] | None = None,
) -> Step:
    agent = t.agent(claim.agent)
    if not limits.may_finish(agent, state.item):
        raise limits.must_submit(agent, state.item)
    return ending.done(t.now, state, claim, note=note, links=links or {}, cost=cost or {})


def _end_all_as_done(t: Transaction, finished: Mapping[str, int], session: str) -> None:
    """End all of these items as done. A refusal of one rolls all of them back."""
    ended = False
    for item, token in sorted(finished.items()):
        if not fencing.was_done(t.run_of(item, token), session):
            state, live = t.fenced(item, session, token)
            t.apply_with_effects(state, _done(t, state, live))
            ended = True
    if ended:
        t.touch_session(session)


def _grant(t: Transaction, item: Item, claim: Claim | None, before: Run | None) -> Grant:
    assert claim is not None
    return Grant(item=item, claim=claim, previous=t.previous(before), approval=t.approval(item))
