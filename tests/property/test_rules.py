"""The rules by themselves: whatever is done to an item, in whatever order, its history folds to what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.config import DEFAULTS
from dibs.errors import DibsError, Invalid
from dibs.model import STATUSES, Agent, Event, NewItem, Session
from dibs.rules import claiming, ending, holding, items
from dibs.rules.backoff import ceiling_seconds, delay_seconds
from dibs.rules.decision import State, Step
from dibs.rules.fold import fold
from dibs.rules.table import TRANSITIONS, allowed
from dibs.testing.refold import Story
from dibs.testing.sizes import times

ANN = Session(id="s-ann", agent="ann")
BOB = Session(id="s-bob", agent="bob")
FREE = Agent(name="any")

#: kind of event -> the verb of the table that it is the trace of
VERB_OF = {
    "claimed": "claim",
    "released": "release",
    "forgotten": "release",
    "expired": "expire",
    "owner_died": "owner_died",
    "force_released": "force_release",
    "done": "done",
    "failed": "fail",
    "retried": "retry",
    "cancelled": "cancel",
}


def claimed_by(session: Session) -> Callable[[int, State], list[Step]]:
    def claim(now: int, state: State) -> list[Step]:
        decision = claiming.claim(now, state, session, FREE, 0, ttl_seconds=60, settings=DEFAULTS)
        return list(decision.steps)

    return claim


def held(rule: Callable[..., Step], **asked: Any) -> Callable[[int, State], list[Step]]:
    """A rule of a holder, done by whoever holds the item, if anybody does."""

    def step(now: int, state: State) -> list[Step]:
        if state.claim is None or not holding.live(state.claim, now):
            return []
        return [rule(now, state, state.claim, **asked)]

    return step


def lapsed(rule: Callable[..., Step]) -> Callable[[int, State], list[Step]]:
    return lambda now, state: [] if state.claim is None else [rule(now, state, DEFAULTS)]


def edited(now: int, state: State) -> list[Step]:
    step = items.edit(now, state, {"title": f"at {now}", "labels": ("x",)}, actor="pat")
    return [] if step is None else [step]


VERBS: dict[str, Callable[[int, State], list[Step]]] = {
    "claim by ann": claimed_by(ANN),
    "claim by bob": claimed_by(BOB),
    "progress": held(holding.progress, note="n", meta={}),
    "release": held(ending.release, reason=None),
    "forget": held(ending.forget),
    "done": held(ending.done, note=None, links={"a": 1}, cost={}),
    "fail": held(ending.fail, reason="r", links={}, cost={"b": 2}),
    "expire": lapsed(ending.expire),
    "owner died": lapsed(ending.owner_died),
    "force release": lambda now, state: [ending.force_release(now, state, actor="pat", reason="r", token=None)],
    "cancel": lambda now, state: [ending.cancel(now, state, actor="pat", reason=None)],
    "retry": lambda now, state: [items.retry(now, state, actor="pat", reason=None)],
    "edit": edited,
}


@given(st.lists(st.tuples(st.sampled_from(sorted(VERBS)), st.integers(0, 90_000)), max_size=40))
@settings(max_examples=times(200), deadline=None)
def test_every_history_folds_to_its_item(steps: list[tuple[str, int]]) -> None:
    now = 1_000_000
    first = items.add(now, NewItem(id="x", title="t", labels=("a",)), actor="pat", token_floor=7)
    state, events = first.state(), [first.event]
    for verb, passed in steps:
        now += passed
        try:
            taken = VERBS[verb](now, state)
        except DibsError:
            continue
        for step in taken:
            assert_legal(state, step)
            events.append(step.event)
            # A store keeps the latest run; an edit says nothing about it.
            state = State(item=step.item, claim=step.claim, run=step.run or state.run)
        assert fold(events) == state.item
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


def test_the_table_knows_only_statuses() -> None:
    for per_status in TRANSITIONS.values():
        assert set(per_status) <= set(STATUSES)
        assert all(set(targets) <= set(STATUSES) for targets in per_status.values())
    assert allowed("claim", "ready")
    assert not allowed("claim", "done")


@given(st.sampled_from(["cli", "person"]), st.floats(0.001, 1e9) | st.none())
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
    claim = claiming.grant(now, new.item, ANN, ttl_seconds).claim
    assert claim is not None
    assert claim.deadline_at == now + timeout_seconds * 1000
    for number, pause in enumerate(pauses, start=1):
        now += pause
        claim = holding.renew(claim, now)
        assert claim.expires_at == min(now + ttl_seconds * 1000, claim.deadline_at)
        assert claim.heartbeat_count == number


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0.001, 100), st.floats(100, 1e6))
def test_backoff_stays_below_its_ceiling_and_the_cap(attempt: int, uniform: float, base: float, cap: float) -> None:
    ceiling = ceiling_seconds(attempt, base_seconds=base, cap_seconds=cap)
    assert base <= ceiling <= cap
    assert 0 <= delay_seconds(attempt, uniform, base_seconds=base, cap_seconds=cap) <= ceiling
    assert ceiling <= ceiling_seconds(attempt + 1, base_seconds=base, cap_seconds=cap)


@given(st.integers(1, 5), st.integers(0, 10), st.integers(1, 20))
def test_room_never_exceeds_the_limit(max_claims: int, held_now: int, n: int) -> None:
    agent = Agent(name="a", max_claims=max_claims)
    if claiming.at_capacity(agent, held_now) is None:
        assert 0 < claiming.room(agent, held_now, n) <= min(n, max_claims - held_now)
    else:
        assert held_now >= max_claims
    assert claiming.room(FREE, held_now, n) == n
