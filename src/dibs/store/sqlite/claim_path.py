"""The claim path on SQLite: claim, recover, next, heartbeat, progress, and the ends of a run."""

from __future__ import annotations

import os
from abc import abstractmethod

from dibs.errors import ClaimExpired, DibsError
from dibs.model import Ended, Finished, Grant, Heartbeat, Lost, Renewal
from dibs.rules import claiming, ending, holding, limits
from dibs.store.sqlite import choice
from dibs.store.sqlite.sweeping import freshen_overdue
from dibs.store.tables import rows
from dibs.store.tables.upkeep import ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from dibs.model import Claim, Item, Request, Run
    from dibs.rules.decision import State, Step
    from dibs.store.tables.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")


#: How much that is overdue `next` records before it looks: all there is, as far as anyone can tell, so that none of it
#: is passed over for a lesser item.
OVERDUE_MAX = 2_000


class ClaimPath:
    @abstractmethod
    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T: ...

    def claim(
        self,
        item: str,
        *,
        session: str,
        agent: str | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        return self.write(lambda t: _claim(t, item, session, agent, ttl_seconds), request, Grant)

    def recover(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        request: Request | None = None,
    ) -> Grant:
        return self.write(lambda t: _recover(t, item, session, token, ttl_seconds), request, Grant)

    def next(
        self,
        *,
        session: str,
        agent: str | None = None,
        types: Sequence[str] = (),
        projects: Sequence[str] = (),
        n: int = 1,
        ttl_seconds: float | None = None,
        done: Mapping[str, int] | None = None,
        request: Request | None = None,
    ) -> tuple[Grant, ...]:
        def next(t: Transaction) -> tuple[Grant, ...]:
            asker = t.asker(session, agent)
            ttl = claiming.ttl(asker.session.kind, ttl_seconds, t.settings)
            _end_as_done(t, done or {}, session)
            freshen_overdue(t, OVERDUE_MAX)
            asker = asker.replace(load=t.load(asker.session, asker.agent))
            full = limits.refusal(t.now, asker.agent, asker.load)
            if full is not None:
                t.refuse(full)
            grants = []
            for item in choice.best(t, asker, types, projects, limits.room(t.now, asker.agent, asker.load, n)):
                before = t.state_of(item)
                step = claiming.grant(t.now, before, asker.session, ttl)
                t.take(step)
                grants.append(_granted(t, step.item, step.claim, before.run))
            if grants:
                t.spend(asker, len(grants))
                t.see(session)
            return tuple(grants)

        return self.write(next, request, Grant)

    def heartbeat(
        self,
        *,
        session: str,
        holding: Mapping[str, int | None] | None = None,
        known_event: int | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Heartbeat:
        return self.write(lambda t: _heartbeat(t, session, holding, known_event, at_most_every_seconds))

    def renew(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        ttl_seconds: float | None = None,
        at_most_every_seconds: float | None = None,
    ) -> Renewal:
        def renew(t: Transaction) -> Renewal:
            _, claim = t.fenced(item, session, token)
            kind = t.session(session).kind
            ttl = None if ttl_seconds is None else claiming.ttl(kind, ttl_seconds, t.settings)
            every = holding.counted_interval(at_most_every_seconds, t.settings)
            if not holding.is_due(claim, t.now, every, ttl):
                return holding.renewal(claim, t.now, t.settings, renewed=False)
            renewed = holding.renew(claim, t.now, ttl)
            t.run_one("renew_claim", rows.encode(renewed))
            t.see(session)
            return holding.renewal(renewed, t.now, t.settings)

        return self.write(renew)

    def progress(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str,
        meta: Mapping[str, Any],
        request: Request | None = None,
    ) -> Renewal:
        def progress(t: Transaction) -> Renewal:
            state, claim = t.fenced(item, session, token)
            step = holding.progress(t.now, state, claim, note=note, meta=dict(meta))
            t.take(step)
            t.see(session)
            assert step.claim is not None
            return holding.renewal(step.claim, t.now, t.settings)

        return self.write(progress, request, Renewal)

    def release(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        park: bool = False,
        request: Request | None = None,
    ) -> Ended:
        def release(t: Transaction, state: State, claim: Claim) -> Step:
            return ending.release(t.now, state, claim, reason=reason, park=park)

        return self._end(release, item, session, token, request)

    def done(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        note: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        def done(t: Transaction, state: State, claim: Claim) -> Step:
            return _done(t, state, claim, note, dict(links), dict(cost))

        return self._end(done, item, session, token, request)

    def done_many(self, holding: Mapping[str, int | None], *, session: str, request: Request | None = None) -> Finished:
        return self.write(lambda t: _done_many(t, holding, session), request, Finished)

    def fail(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        reason: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        def fail(t: Transaction, state: State, claim: Claim) -> Step:
            return ending.fail(
                t.now,
                state,
                claim,
                reason=reason,
                links=dict(links),
                cost=dict(cost),
                settings=t.settings,
                uniform=_uniform(),
            )

        return self._end(fail, item, session, token, request)

    def submit(
        self,
        item: str,
        *,
        session: str,
        token: int | None = None,
        draft: str,
        note: str | None = None,
        links: Mapping[str, Any],
        cost: Mapping[str, Any],
        request: Request | None = None,
    ) -> Ended:
        def submit(t: Transaction, state: State, claim: Claim) -> Step:
            return ending.submit(t.now, state, claim, draft=draft, note=note, links=dict(links), cost=dict(cost))

        return self._end(submit, item, session, token, request)

    def _end(
        self,
        end: Callable[[Transaction, State, Claim], Step],
        item: str,
        session: str,
        token: int | None,
        request: Request | None,
    ) -> Ended:
        def work(t: Transaction) -> Ended:
            state, claim = t.fenced(item, session, token)
            step = end(t, state, claim)
            last = t.carry_out(state, step)
            t.see(session)
            return ended(step, last)

        return self.write(work, request, Ended)


def _uniform() -> float:
    """A draw from 0 to 1; the module `random` would cost a third of a claim to import."""
    return int.from_bytes(os.urandom(7), "big") / 2**56


def _claim(
    t: Transaction,
    item: str,
    session: str,
    agent: str | None,
    ttl_seconds: float | None,
    unless_after: int | None = None,
) -> Grant:
    state = t.state(item)
    asker = t.asker(session, agent, state.item.project if state.item.resources else None)
    decision = claiming.claim(
        t.now, state, asker, ttl_seconds=ttl_seconds, settings=t.settings, unless_after=unless_after
    )
    t.write(decision)
    t.see(session)
    if decision.renewed is not None:
        before = t.run_of(item, decision.renewed.token - 1)
        return _granted(t, state.item, decision.renewed, before).replace(renewed=True)
    t.spend(asker, 1)
    # An expiry on the way is the end of the run that the new holder takes up.
    before = next((step.run for step in reversed(decision.steps[:-1]) if step.run is not None), state.run)
    return _granted(t, decision.steps[-1].item, decision.steps[-1].claim, before)


def _recover(t: Transaction, item: str, session: str, token: int | None, ttl_seconds: float | None) -> Grant:
    if t.one("item_by_id", id=item) is not None:
        t.session(session)  # one that has ended gets nothing back
    try:
        _, claim = t.fenced(item, session, token)
        token = claim.token
    except ClaimExpired as error:
        if not claiming.recoverable(error):
            raise
        token = error.facts["token"]
    return _claim(t, item, session, None, ttl_seconds, unless_after=token)


def _done(
    t: Transaction, state: State, claim: Claim, note: str | None, links: dict[str, Any], cost: dict[str, Any]
) -> Step:
    agent = t.agent(claim.agent)
    if not limits.may_finish(agent, state.item):
        raise limits.must_submit(agent, state.item)
    return ending.done(t.now, state, claim, note=note, links=links, cost=cost)


def _end_as_done(t: Transaction, finished: Mapping[str, int], session: str) -> None:
    """End all of these; if one is not the session's to end, refuse, which leaves all of them as they were."""
    ends = 0
    for item, token in sorted(finished.items()):
        if not holding.was_done(t.run_of(item, token), session):
            state, claim = t.fenced(item, session, token)
            t.carry_out(state, _done(t, state, claim, None, {}, {}))
            ends += 1
    if ends:
        t.see(session)


def _done_many(t: Transaction, believed: Mapping[str, int | None], session: str) -> Finished:
    finished, lost = [], []
    for item, token in sorted(believed.items()):
        try:
            state, claim = t.fenced(item, session, token)
            step = _done(t, state, claim, None, {}, {})
        except DibsError as error:
            lost.append(holding.lost(item, token, error))
        else:
            finished.append(ended(step, t.carry_out(state, step)))
    if finished:
        t.see(session)
    return Finished(ended=tuple(finished), lost=tuple(lost))


def _granted(t: Transaction, item: Item, claim: Claim | None, before: Run | None) -> Grant:
    assert claim is not None, "a grant is a claim"
    return Grant(item=item, claim=claim, previous=t.previous(before), approval=t.approval(item))


def _heartbeat(
    t: Transaction,
    session: str,
    believed: Mapping[str, int | None] | None,
    known_event: int | None,
    at_most_every_seconds: float | None,
) -> Heartbeat:
    t.session(session)
    forgotten = []
    if believed is not None:
        for row in t.all("live_claims_of_session", session=session, now=t.now):
            claim = rows.claim(row)
            if claim.item not in believed and holding.is_known(_given_event(t, claim), known_event):
                state = t.state(claim.item)
                t.carry_out(state, ending.forget(t.now, state, claim))
                forgotten.append(claim.item)
    every = round((holding.counted_interval(at_most_every_seconds, t.settings) or 0) * 1000)
    beat = {"session": session, "now": t.now, "every": every}
    kept = renewed = [rows.claim(row) for row in t.all("renew_session", **beat)]
    t.run("renew_soft_claims", beat)
    if every:
        kept = [rows.claim(row) for row in t.all("live_claims_of_session", session=session, now=t.now)]
    lost = _lapsed(t, session) if believed is None else _lost(t, session, believed)
    if renewed or not kept:
        t.see(session)
    now, settings, due = t.now, t.settings, {claim.item for claim in renewed}
    return Heartbeat(
        session=session,
        renewed=tuple(
            holding.renewal(claim, now, settings, renewed=claim.item in due)
            for claim in sorted(kept, key=lambda c: c.item)
        ),
        lost=tuple(lost),
        forgotten=tuple(sorted(forgotten)),
        heartbeat_seconds=min(
            [t.settings.heartbeat_seconds, *(holding.interval_seconds(claim, t.settings) for claim in kept)]
        ),
        event=int(t.figure("latest_event") or 0),
    )


def _given_event(t: Transaction, claim: Claim) -> int:
    return int(t.figure("first_event_of_claim", item=claim.item, token=claim.token) or 0)


def _lapsed(t: Transaction, session: str) -> list[Lost]:
    lapsed = t.all("lapsed_claims_of_session", session=session, now=t.now)
    return _lost(t, session, {claim.item: claim.token for claim in map(rows.claim, lapsed)})


def _lost(t: Transaction, session: str, believed: Mapping[str, int | None]) -> list[Lost]:
    """Of what the session believes to hold, what it does not."""
    lost = []
    for item, token in sorted(believed.items()):
        try:
            t.fenced(item, session, token)
        except DibsError as error:
            lost.append(holding.lost(item, token, error))
    return lost
