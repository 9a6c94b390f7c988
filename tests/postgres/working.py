"""The verbs of the claim path at work, each often enough that the server keeps a plan for good, in all their turns.

What has to be in the past is put there behind the store's back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import psycopg

from dibs.errors import DibsError
from dibs.model import Agent, Grant, NewItem, Owner, Request, Session
from dibs.store.postgres.lane_hints import LaneHints
from tests.kit.owners import found_dead
from tests.postgres.explaining import ExplainedStore

#: After five runs a plan that fits all parameters may be chosen for good.
TIMES = 6
LONG_AGO, FAR_AHEAD = 1, 2**50
FOR_EVER = 1e9
NUMBERS = itertools.count()


class Work:
    """One worker on a board, and what it takes for the verbs."""

    def __init__(self, store: ExplainedStore, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.store = store
        self._connection = connection
        for session in ("worker", "other", "limited"):
            store.start_session(Session(id=session, agent=session))
        store.set_agent(
            Agent(name="limited", max_claims=500, max_claims_total=500, claims_per_minute=60_000.0, claims_burst=500)
        )

    def name(self) -> str:
        return f"work-{next(NUMBERS):06}"

    def new(self, count: int = 1, **fields: Any) -> list[str]:
        """New items, for this purpose."""
        names = [self.name() for _ in range(count)]
        self.store.add([NewItem(id=name, title="an item", **fields) for name in names], actor="tester")
        return names

    def taken(self, session: str = "worker", **fields: Any) -> str:
        """A new item, held."""
        (name,) = self.new(**fields)
        self.store.claim(name, session=session)
        return name

    def request(self) -> Request:
        return Request(actor="tester", id=self.name(), fingerprint="same")

    def put(self, instant: int, table: str, column: str, **key: str) -> None:
        """Have an instant of one row lie elsewhere."""
        ((name, value),) = key.items()
        words = f"UPDATE dibs.{table} SET {column} = %s WHERE {name} = %s"  # noqa: S608  names of this module
        self._connection.execute(words.encode(), [instant, value])

    def expire(self, item: str) -> None:
        for column in ("expires_at", "look_at"):
            self.put(LONG_AGO, "claims", column, item=item)

    def remember(self, seconds: float) -> None:
        """For how long `next` goes by what it remembers of the lanes."""
        self.store._hints = LaneHints(seconds)


def refused(verb: Callable[..., Any], *given: Any, **named: Any) -> None:
    try:
        verb(*given, **named)
    except DibsError:
        return
    raise AssertionError(f"{verb.__name__} was not refused")


def next_one(work: Work, **asked: Any) -> tuple[Grant, ...]:
    grants = work.store.next(session="worker", **asked)
    assert grants
    return grants


def next_in_one_lane(work: Work) -> None:
    work.new(TIMES, type="code")
    for _ in range(TIMES):
        next_one(work, types=["code"])


def next_by_what_is_remembered(work: Work) -> None:
    work.new(2 * TIMES, type="code")
    work.remember(FOR_EVER)
    for _ in range(2 * TIMES):
        next_one(work, types=["code"])
    work.remember(0)


def next_in_several_lanes(work: Work) -> None:
    for lane in ("code", "docs") * TIMES:
        work.new(type=lane)
    for _ in range(TIMES):
        next_one(work, types=["code", "docs"], n=2)


def next_in_a_touching_lane(work: Work) -> None:
    for _ in range(TIMES):
        work.new(type="touching", resources=("src/main.py",))
        for grant in next_one(work, types=["touching"]):
            work.store.release(grant.item.id, session="worker")


def next_of_what_was_begun(work: Work) -> None:
    for _ in range(TIMES):
        kind = work.name()
        item = work.taken(type=kind)
        work.store.progress(item, session="worker", note="so far", meta={})
        work.store.submit(item, session="worker", draft="a draft", links={}, cost={})
        work.store.send_back(item, comment="not yet", actor="person")
        next_one(work, types=[kind])


def next_of_what_was_approved(work: Work) -> None:
    for _ in range(TIMES):
        kind = work.name()
        item = work.taken(type=kind)
        work.store.submit(item, session="worker", draft="a draft", links={}, cost={})
        work.store.approve(item, actor="person", token=1)
        next_one(work, types=[kind])


def next_of_a_limited_agent(work: Work) -> None:
    work.new(TIMES, type="code")
    for _ in range(TIMES):
        work.put(FAR_AHEAD, "agents", "bucket_at", name="limited")
        assert work.store.next(session="limited", types=["code"], request=work.request())


def next_after_what_is_finished(work: Work) -> None:
    work.new(2 * TIMES, type="code")
    finished: dict[str, int] = {}
    for _ in range(TIMES):
        # What was finished before is asked once more, as after a lost answer.
        finished = {**finished, **{work.taken(): 1 for _ in range(3)}}
        work.new(depends_on=tuple(finished))
        for _ in range(2):
            finished = {grant.item.id: 1 for grant in next_one(work, types=["code"], done=finished)}
        refused(work.store.next, session="worker", done={**finished, "unheard-of": 1})


def next_of_nothing(work: Work) -> None:
    for _ in range(TIMES):
        assert not work.store.next(session="worker", types=["nothing"])


def claim(work: Work) -> None:
    for item in work.new(TIMES):
        request = work.request()
        for _ in range(2):
            work.store.claim(item, session="worker", request=request)
        work.store.claim(item, session="worker")
        refused(work.store.claim, item, session="other")


def claim_what_touches(work: Work) -> None:
    for _ in range(TIMES):
        place = f"{work.name()}/src"
        item, busy = work.new(2, resources=(place,))
        work.store.claim(item, session="limited")
        refused(work.store.claim, busy, session="other")


def claim_what_is_late(work: Work) -> None:
    for _ in range(TIMES):
        expired = work.taken()
        work.expire(expired)
        work.store.claim(expired, session="other")
        due = work.new(not_before=FAR_AHEAD)[0]
        work.put(LONG_AGO, "items", "not_before", id=due)
        work.store.claim(due, session="worker")
        needed = work.taken()
        blocked = work.new(depends_on=(needed,))[0]
        refused(work.store.claim, blocked, session="worker")


def claim_what_was_offered(work: Work) -> None:
    for _ in range(TIMES):
        item = work.taken()
        work.store.wait(item, session="other")
        work.store.release(item, session="worker")
        refused(work.store.claim, item, session="worker")
        work.store.claim(item, session="other")
        work.store.wait(item, session="worker")
        work.store.release(item, session="other")
        work.put(LONG_AGO, "items", "offer_expires_at", id=item)
        work.store.claim(item, session="other")


def claim_a_busy_offer(work: Work) -> None:
    for _ in range(TIMES):
        place = f"{work.name()}/src"
        item, busy = work.new(2, resources=(place,))
        work.store.claim(busy, session="worker")
        work.store.wait(busy, session="other")
        work.store.release(busy, session="worker")
        work.store.claim(item, session="worker")
        refused(work.store.claim, busy, session="other")


def recover(work: Work) -> None:
    for _ in range(TIMES):
        for token in (None, 1):
            item = work.taken()
            work.expire(item)
            work.store.recover(item, session="worker", token=token)


def renew(work: Work) -> None:
    for _ in range(TIMES):
        item = work.taken()
        work.store.renew(item, session="worker")
        refused(work.store.renew, item, session="other")
        refused(work.store.renew, item, session="worker", token=77)


def heartbeat(work: Work) -> None:
    session = work.name()
    work.store.start_session(Session(id=session, agent="worker"))
    for _ in range(TIMES):
        kept, late, forgotten = (work.taken(session) for _ in range(3))
        work.expire(late)
        for meta in (None, {"context_percent": 40}):
            assert work.store.heartbeat(session=session, meta=meta).lost
        holding: dict[str, int | None] = {kept: None, late: 1, "unheard-of": 1}
        beat = work.store.heartbeat(session=session, holding=holding, at_most_every_seconds=60)
        assert forgotten in beat.forgotten


def progress(work: Work) -> None:
    item = work.taken()
    for _ in range(TIMES):
        work.store.progress(item, session="worker", note="so far", meta={}, request=work.request())


def release(work: Work) -> None:
    for number in range(TIMES):
        work.store.release(work.taken(), session="worker", park=bool(number % 2), request=work.request())
        needed = work.taken()
        work.store.done(needed, session="worker", links={}, cost={})
        work.store.release(work.taken(depends_on=(needed,)), session="worker")


def done(work: Work) -> None:
    for _ in range(TIMES):
        item = work.taken()
        work.store.wait(item, session="other")
        work.store.done(item, session="worker", note="well", links={"pr": 1}, cost={}, request=work.request())


def done_with_dependents(work: Work) -> None:
    for _ in range(TIMES):
        item = work.taken()
        work.new(2, depends_on=(item,))
        work.store.done(item, session="worker", links={}, cost={})


def done_with_review(work: Work) -> None:
    for _ in range(TIMES):
        item = work.taken(review=True)
        work.store.wait(item, session="other")
        work.store.done(item, session="worker", links={}, cost={})
        work.store.approve(item, actor="person", token=1)
        held: dict[str, int | None] = {work.taken(review=True): None, work.taken(): None}
        work.store.done_many(held, session="worker", request=work.request())


def done_many(work: Work) -> None:
    for _ in range(TIMES):
        held: dict[str, int | None] = {work.taken(): None for _ in range(3)}
        work.store.done_many({**held, "unheard-of": 1}, session="worker", request=work.request())


def fail(work: Work) -> None:
    for _ in range(TIMES):
        item = work.taken(retries=1)
        work.store.fail(item, session="worker", links={}, cost={})
        last = work.taken()
        work.store.wait(last, session="other")
        work.store.fail(last, session="worker", links={}, cost={})


def submit(work: Work) -> None:
    for _ in range(TIMES):
        work.store.submit(work.taken(), session="worker", draft="a draft", links={}, cost={})


def force_release(work: Work) -> None:
    for _ in range(TIMES):
        item = work.taken()
        refused(work.store.force_release, item, actor="person", reason="a guess", token=77)
        work.store.force_release(item, actor="person", reason="stuck", request=work.request())


def sweep(work: Work) -> None:
    for _ in range(TIMES):
        _let_time_pass(work)
        swept = work.store.sweep(limit=100)
        assert swept.expired
        assert swept.due
        assert swept.offers


def bury(work: Work) -> None:
    for _ in range(TIMES):
        session, owner = work.name(), Owner(boot_id="a boot", pid_namespace=1, pid=1, start_time=1)
        work.store.start_session(Session(id=session, agent="worker", owner=owner))
        work.store.start_session(Session(id=f"{session}-child", agent="worker", parent=session))
        item = work.taken(f"{session}-child")
        other = work.taken("other")
        work.store.wait(other, session=session)
        work.store.release(other, session="other")
        work.store.wait(work.taken("other"), session=session)
        with found_dead((session, owner)):
            assert item in work.store.sweep(limit=100).owner_died


def _let_time_pass(work: Work) -> None:
    work.expire(work.taken())
    # Renewed since it was last looked at.
    work.put(LONG_AGO, "claims", "look_at", item=work.taken())
    (due,) = work.new(not_before=FAR_AHEAD)
    work.put(LONG_AGO, "items", "not_before", id=due)
    offered, waited_for = work.taken(), work.taken()
    work.store.wait(offered, session="other")
    work.store.release(offered, session="worker")
    work.put(LONG_AGO, "items", "offer_expires_at", id=offered)
    work.store.wait(waited_for, session="other")
    work.put(LONG_AGO, "tickets", "expires_at", item=waited_for)
    request = work.request()
    work.store.release(work.taken(), session="worker", request=request)
    work.put(LONG_AGO, "requests", "at", id=request.id)


VERBS: tuple[Callable[[Work], None], ...] = (
    next_in_one_lane,
    next_by_what_is_remembered,
    next_in_several_lanes,
    next_in_a_touching_lane,
    next_of_what_was_begun,
    next_of_what_was_approved,
    next_of_a_limited_agent,
    next_after_what_is_finished,
    next_of_nothing,
    claim,
    claim_what_touches,
    claim_what_is_late,
    claim_what_was_offered,
    claim_a_busy_offer,
    recover,
    renew,
    heartbeat,
    progress,
    release,
    done,
    done_with_dependents,
    done_with_review,
    done_many,
    fail,
    submit,
    force_release,
    sweep,
    bury,
)
