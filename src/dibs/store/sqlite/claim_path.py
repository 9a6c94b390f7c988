"""The claim path on SQLite: claim, recover, next, heartbeat, progress, and the ends of a run."""

from __future__ import annotations

from abc import abstractmethod

from dibs.errors import ClaimExpired, DibsError
from dibs.model import Ended, Grant, Heartbeat, Lost, Renewal
from dibs.rules import claiming, ending, holding
from dibs.store.sqlite import rows
from dibs.store.sqlite.queries import PATH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from dibs.model import Claim, Item, Request, Run
    from dibs.rules.decision import State, Step
    from dibs.store.sqlite.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")


#: How many expired claims `next` records before it looks: all there are, as far as anyone can tell, so that none of
#: them is passed over for a lesser item.
EXPIRED_MAX = 10_000


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
        request: Request | None = None,
    ) -> tuple[Grant, ...]:
        def next(t: Transaction) -> tuple[Grant, ...]:
            me, my_agent = t.session_and_agent(session, agent)
            ttl = claiming.ttl(me.kind, ttl_seconds, t.settings)
            expire_lapsed(t, EXPIRED_MAX)
            held = t.held(session)
            full = claiming.at_capacity(my_agent, held)
            if full is not None:
                t.refuse(full)
            wanted = claiming.wanted_types(my_agent, types)
            grants = []
            for item in _best(t, wanted, projects, claiming.room(my_agent, held, n)):
                before = t.run_of(item.id, item.token)
                step = claiming.grant(t.now, item, me, ttl)
                t.take(step)
                grants.append(_granted(t, step.item, step.claim, before))
            if grants:
                t.see(session)
            return tuple(grants)

        return self.write(next, request, Grant)

    def heartbeat(self, *, session: str, holding: Mapping[str, int | None] | None = None) -> Heartbeat:
        return self.write(lambda t: _heartbeat(t, session, holding))

    def renew(self, item: str, *, session: str, token: int | None = None, ttl_seconds: float | None = None) -> Renewal:
        def renew(t: Transaction) -> Renewal:
            _, claim = t.fenced(item, session, token)
            kind = t.session(session).kind
            ttl = None if ttl_seconds is None else claiming.ttl(kind, ttl_seconds, t.settings)
            renewed = holding.renew(claim, t.now, ttl)
            t.run_one(PATH["renew_claim"], rows.encode(renewed))
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
        request: Request | None = None,
    ) -> Ended:
        def release(now: int, state: State, claim: Claim) -> Step:
            return ending.release(now, state, claim, reason=reason)

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
        def done(now: int, state: State, claim: Claim) -> Step:
            return ending.done(now, state, claim, note=note, links=dict(links), cost=dict(cost))

        return self._end(done, item, session, token, request)

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
        def fail(now: int, state: State, claim: Claim) -> Step:
            return ending.fail(now, state, claim, reason=reason, links=dict(links), cost=dict(cost))

        return self._end(fail, item, session, token, request)

    def _end(
        self,
        end: Callable[[int, State, Claim], Step],
        item: str,
        session: str,
        token: int | None,
        request: Request | None,
    ) -> Ended:
        def work(t: Transaction) -> Ended:
            step = end(t.now, *t.fenced(item, session, token))
            t.take(step)
            t.see(session)
            return ended(step)

        return self.write(work, request, Ended)


def ended(step: Step) -> Ended:
    assert step.run is not None, "an end closes a run"
    return Ended(item=step.item, run=step.run)


def expire_lapsed(t: Transaction, limit: int) -> list[Item]:
    """Record the expiry of claims whose time is up, oldest first, at most `limit`; the items as they are then."""
    expired = []
    for (item,) in t.all(PATH["lapsed_items"], now=t.now, limit=limit):
        step = ending.expire(t.now, t.state(item), t.settings)
        t.take(step)
        expired.append(step.item)
    return expired


def _claim(
    t: Transaction,
    item: str,
    session: str,
    agent: str | None,
    ttl_seconds: float | None,
    unless_after: int | None = None,
) -> Grant:
    me, my_agent = t.session_and_agent(session, agent)
    state = t.state(item)
    decision = claiming.claim(
        t.now,
        state,
        me,
        my_agent,
        t.held(session),
        ttl_seconds=ttl_seconds,
        settings=t.settings,
        unless_after=unless_after,
    )
    t.write(decision)
    t.see(session)
    if decision.renewed is not None:
        before = None if decision.renewed.token < 2 else t.run_of(item, decision.renewed.token - 1)
        return _granted(t, state.item, decision.renewed, before)
    # An expiry on the way is the end of the run that the new holder takes up.
    before = decision.steps[-2].run if len(decision.steps) > 1 else state.run
    return _granted(t, decision.steps[-1].item, decision.steps[-1].claim, before)


def _recover(t: Transaction, item: str, session: str, token: int | None, ttl_seconds: float | None) -> Grant:
    try:
        _, claim = t.fenced(item, session, token)
        token = claim.token
    except ClaimExpired as error:
        if not claiming.recoverable(error):
            raise
        token = error.facts["token"]
    return _claim(t, item, session, None, ttl_seconds, unless_after=token)


def _granted(t: Transaction, item: Item, claim: Claim | None, before: Run | None) -> Grant:
    assert claim is not None, "a grant is a claim"
    return Grant(item=item, claim=claim, previous=t.previous(before))


def _best(t: Transaction, types: Sequence[str] | None, projects: Sequence[str], n: int) -> list[Item]:
    """The first `n` ready items over the lanes that are wanted: priority descending, then age."""
    if types is not None and projects:
        lanes = [(project, type) for project in projects for type in types]
    else:
        lanes = [
            (project, type)
            for project, type in _ready_lanes(t)
            if (not projects or project in projects) and (types is None or type in types)
        ]
    heads: list[tuple[int, int]] = []
    for project, type in lanes:
        heads += t.all(PATH["lane_heads"], project=project, type=type, limit=n)
    best = sorted(heads, key=lambda head: (-head[0], head[1]))[:n]
    found = (t.one(PATH["item_by_seq"], seq=seq) for _, seq in best)
    return [rows.item(row) for row in found if row is not None]


def _ready_lanes(t: Transaction) -> Iterator[tuple[str, str]]:
    lane = t.one(PATH["next_lane"], project="", type="")
    while lane is not None:
        yield lane[0], lane[1]
        lane = t.one(PATH["next_lane"], project=lane[0], type=lane[1])


def _heartbeat(t: Transaction, session: str, believed: Mapping[str, int | None] | None) -> Heartbeat:
    t.session(session)
    forgotten = []
    if believed is not None:
        for row in t.all(PATH["live_claims_of_session"], session=session, now=t.now):
            claim = rows.claim(row)
            if claim.item not in believed:
                t.take(ending.forget(t.now, t.state(claim.item), claim))
                forgotten.append(claim.item)
    kept = [rows.claim(row) for row in t.all(PATH["renew_session"], session=session, now=t.now)]
    lost = _lapsed(t, session) if believed is None else _lost(t, session, believed)
    t.see(session)
    return Heartbeat(
        session=session,
        renewed=tuple(holding.renewal(claim, t.now, t.settings) for claim in sorted(kept, key=lambda c: c.item)),
        lost=tuple(lost),
        forgotten=tuple(sorted(forgotten)),
        heartbeat_seconds=min(
            [t.settings.heartbeat_seconds, *(holding.interval_seconds(claim, t.settings) for claim in kept)]
        ),
    )


def _lapsed(t: Transaction, session: str) -> list[Lost]:
    lapsed = t.all(PATH["lapsed_claims_of_session"], session=session, now=t.now)
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
