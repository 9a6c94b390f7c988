"""The rules by themselves: whatever is done to an item, in whatever order, its history folds to what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.config import DEFAULTS
from dibs.errors import DibsError, Invalid
from dibs.model import STATUSES, Agent, Blocker, Event, NewItem, Session, Ticket
from dibs.rules import claiming, ending, fencing, items, limits, queueing, reviewing
from dibs.rules.decision import State, Step
from dibs.rules.ending import ceiling_seconds, delay_seconds
from dibs.rules.limits import Load
from dibs.rules.overdue import due_steps
from dibs.rules.replay import fold
from dibs.rules.table import TRANSITIONS, allowed
from dibs.testing.refold import Story
from dibs.testing.sizes import times

ANN = Session(id="s-ann", agent="ann")
BOB = Session(id="s-bob", agent="bob")
FREE = Agent(name="any")
NOTHING = Load(held=0, held_total=0, bucket=0.0, bucket_at=0, next_expiry_at=None)

#: kind of event -> the verb of the table that it is the trace of
VERB_OF = {
    "unblocked": "settle",
    "due": "settle",
    "edited": "edit",
    "claimed": "claim",
    "released": "release",
    "forgotten": "release",
    "expired": "expire",
    "owner_died": "owner_died",
    "force_released": "force_release",
    "done": "done",
    "failed": "fail",
    "submitted": "submit",
    "rejected": "reject",
    "approved": "approve",
    "sent_back": "send_back",
    "parked": "park",
    "unparked": "unpark",
    "retried": "retry",
    "reopened": "reopen",
    "cancelled": "cancel",
}


def claimed_by(session: Session) -> Callable[[int, State], list[Step]]:
    def claim(now: int, state: State) -> list[Step]:
        claimant = claiming.Claimant(session=session, agent=FREE, load=NOTHING)
        return list(claiming.claim(now, state, claimant, ttl_seconds=60, settings=DEFAULTS).steps)

    return claim


def held(rule: Callable[..., Step], **asked: Any) -> Callable[[int, State], list[Step]]:
    """A rule of a holder, done by whoever holds the item, if anybody does."""

    def step(now: int, state: State) -> list[Step]:
        if state.claim is None or not fencing.live(state.claim, now):
            return []
        return [rule(now, state, state.claim, **asked)]

    return step


def lapsed(rule: Callable[..., Step]) -> Callable[[int, State], list[Step]]:
    return lambda now, state: [] if state.claim is None else [rule(now, state, DEFAULTS)]


def edited(**changes: Any) -> Callable[[int, State], list[Step]]:
    def edit(now: int, state: State) -> list[Step]:
        found = {name: value(now) if callable(value) else value for name, value in changes.items()}
        step = items.edit(now, state, found, actor="pat")
        return [] if step is None else [step]

    return edit


def by_pat(rule: Callable[..., Step], **asked: Any) -> Callable[[int, State], list[Step]]:
    return lambda now, state: [rule(now, state, actor="pat", **asked)]


def approved(**asked: Any) -> Callable[[int, State], list[Step]]:
    return lambda now, state: [reviewing.approve(now, state, state.run, actor="pat", **asked)]


VERBS: dict[str, Callable[[int, State], list[Step]]] = {
    "claim by ann": claimed_by(ANN),
    "claim by bob": claimed_by(BOB),
    "progress": held(fencing.progress, note="n", meta={}),
    "release": held(ending.release, reason=None),
    "release and park": held(ending.release, reason=None, park=True),
    "forget": held(ending.forget),
    "done": held(ending.done, note=None, links={"a": 1}, cost={}),
    "fail": held(ending.fail, reason="r", links={}, cost={"b": 2}, settings=DEFAULTS, uniform=0.5),
    "submit": held(ending.submit, draft="d", note=None, links={}, cost={}),
    "reject by its holder": held(ending.reject, reason="no"),
    "expire": lapsed(ending.expire),
    "owner died": lapsed(ending.owner_died),
    "force release": by_pat(ending.force_release, reason="r", token=None),
    "cancel": by_pat(ending.cancel, reason=None),
    "retry": by_pat(items.retry, reason=None),
    "reopen": by_pat(items.reopen, reason=None, token_floor=0),
    "park": by_pat(items.park, reason=None),
    "unpark": by_pat(items.unpark, reason=None),
    "approve": approved(comment=None, done=False),
    "approve as done": approved(comment="c", done=True),
    "send back": by_pat(reviewing.send_back, comment="c"),
    "reject by a person": by_pat(reviewing.reject, reason="no"),
    "edit": edited(title=lambda now: f"at {now}", labels=("x",)),
    "postpone": edited(not_before=lambda now: now + 50_000),
    "let time tell": lambda now, state: due_steps(now, state, DEFAULTS)[0],
}
#: What happens around the item, not to it.
AROUND = ("block", "unblock", "ann waits", "bob waits")


def happened(what: str, now: int, state: State) -> State:
    """The state with its blocker or its tickets otherwise; a ticket is one, in the order of their numbers."""
    if what == "block" and state.item.status != "ready":
        return state.replace(blockers=(Blocker(item="other", status="ready", will_move=True),))
    if what == "unblock":
        return state.replace(blockers=())
    who = {"ann waits": ANN, "bob waits": BOB}.get(what)
    if who is None or state.item.status in ("done", "failed", "rejected", "cancelled", "ready"):
        return state
    ticket = queueing.wait(now, state, who, 60, DEFAULTS)
    number = ticket.id or max((one.id for one in state.tickets), default=0) + 1
    others: list[Ticket] = [one for one in state.tickets if one.id != number]
    return state.replace(tickets=tuple(sorted([*others, ticket.replace(id=number)], key=lambda one: one.id)))


@given(
    st.lists(st.tuples(st.sampled_from((*sorted(VERBS), *AROUND)), st.integers(0, 90_000)), max_size=40),
    st.integers(0, 2),
    st.booleans(),
)
@settings(max_examples=times(400), deadline=None)
def test_every_history_folds_to_its_item(steps: list[tuple[str, int]], retries: int, needs_approval: bool) -> None:
    now = 1_000_000
    new = NewItem(id="x", title="t", labels=("a",), depends_on=("other",), retries=retries)
    first = items.add(now, new.replace(needs_approval=needs_approval), actor="pat", token_floor=7)
    state, events = State(item=first.item), [first.event]
    if first.item.status == "ready":
        free = queueing.available(now, state, DEFAULTS)
        state, events = free.after(state), [*events, free.event]
    for verb, passed in steps:
        now += passed
        if verb in AROUND:
            state = happened(verb, now, state)
            continue
        try:
            taken = VERBS[verb](now, state)
        except DibsError:
            continue
        # What claims and time decide comes complete; of every other verb the board carries out the consequences.
        if len(taken) == 1 and not verb.startswith(("claim", "let time")):
            taken = list(queueing.follow(now, state, taken[0], DEFAULTS))
        for step in taken:
            assert_legal(state, step)
            events.append(step.event)
            state = step.after(state)
        assert fold(events) == state.item
        assert not (state.tickets and state.item.status in ("done", "failed", "rejected", "cancelled"))
    story = Story("x", [event.replace(id=number) for number, event in enumerate(events, start=1)])
    assert story.oddities == []
    assert story.differences(state.item) == []


def assert_legal(before: State, step: Step) -> None:
    """One event for the step, numbered on; the status moves only as the table says."""
    event: Event = step.event
    assert event.number == before.item.revision + 1 == step.item.revision
    assert (event.status, event.token) == (step.item.status, step.item.token)
    verb = VERB_OF.get(event.kind)
    if verb is None:
        assert step.item.status == before.item.status
    else:
        assert step.item.status in TRANSITIONS[verb][before.item.status]
    assert step.item.token == before.item.token + (event.kind == "claimed")
    assert (step.item.status == "in_progress") == (step.claim is not None)
    assert step.item.offered_to is None or step.item.status == "ready"


def test_the_table_knows_only_statuses() -> None:
    for per_status in TRANSITIONS.values():
        assert set(per_status) <= set(STATUSES)
        assert all(set(targets) <= set(STATUSES) for targets in per_status.values())
    assert allowed("claim", "ready")
    assert not allowed("claim", "done")


@given(st.sampled_from(["cli", "person", "agent"]), st.floats(0.001, 1e9) | st.none())
def test_a_ttl_is_within_its_bounds_or_refused(kind: str, asked: float | None) -> None:
    low = DEFAULTS.ttl_seconds_min
    high = DEFAULTS.person_ttl_seconds_max if kind == "person" else DEFAULTS.ttl_seconds_max
    if asked is None or low <= asked <= high:
        given_seconds = claiming.ttl(kind, asked, DEFAULTS)
        assert low <= given_seconds <= high
        assert asked in (None, given_seconds)
    else:
        with pytest.raises(Invalid) as caught:
            claiming.ttl(kind, asked, DEFAULTS)
        assert caught.value.facts["field"] == "ttl_seconds"


@given(st.integers(60, 7200), st.integers(1, 100_000), st.lists(st.integers(0, 7_200_000), max_size=10))
def test_no_renewal_passes_the_deadline(ttl_seconds: int, timeout_seconds: int, pauses: list[int]) -> None:
    now = 1_000_000
    new = items.add(now, NewItem(id="x", title="t", timeout_seconds=timeout_seconds), actor="p", token_floor=0)
    claim = claiming.grant(now, State(item=new.item), ANN, ttl_seconds).claim
    assert claim is not None
    assert claim.deadline_at == now + timeout_seconds * 1000
    for number, pause in enumerate(pauses, start=1):
        now += pause
        claim = fencing.renew(claim, now)
        assert claim.expires_at == min(now + ttl_seconds * 1000, claim.deadline_at)
        assert claim.heartbeat_count == number


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0.001, 100), st.floats(100, 1e6))
def test_backoff_stays_below_its_ceiling_and_the_cap(attempt: int, uniform: float, base: float, cap: float) -> None:
    ceiling = ceiling_seconds(attempt, base_seconds=base, cap_seconds=cap)
    assert base <= ceiling <= cap
    assert 0 <= delay_seconds(attempt, uniform, base_seconds=base, cap_seconds=cap) <= ceiling
    assert ceiling <= ceiling_seconds(attempt + 1, base_seconds=base, cap_seconds=cap)


@given(
    st.builds(
        Agent,
        name=st.just("a"),
        max_claims=st.none() | st.integers(1, 5),
        max_claims_total=st.none() | st.integers(1, 8),
        claims_per_minute=st.none() | st.floats(0.1, 100),
        claims_burst=st.integers(1, 5),
    ),
    st.integers(0, 10),
    st.integers(0, 10),
    st.floats(0, 5),
    st.integers(0, 200_000),
    st.integers(1, 20),
)
def test_room_never_exceeds_any_limit(
    agent: Agent, held_now: int, held_by_others: int, bucket: float, passed: int, n: int
) -> None:
    load = NOTHING.replace(held=held_now, held_total=held_now + held_by_others, bucket=bucket)
    room = limits.room(passed, agent, load, n)
    assert (room == 0) == (limits.refusal(passed, agent, load) is not None)
    assert 0 <= room <= n
    if room and agent.max_claims is not None:
        assert held_now + room <= agent.max_claims
    if room and agent.max_claims_total is not None:
        assert load.held_total + room <= agent.max_claims_total
    if room and agent.claims_per_minute is not None:
        assert room <= min(agent.claims_burst, bucket + passed / 60_000 * agent.claims_per_minute)
    assert limits.room(passed, FREE, load, n) == n
