"""The SQLite store against the reference model: ten thousand random steps, many more in a soak."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase

from dibs import randomness
from dibs.errors import DibsError
from dibs.rules import claiming, ending, limits, overdue, queueing, reviewing, table
from dibs.rules.decision import State, Step
from dibs.store.sql.transaction import Transaction
from dibs.testing import sizes
from dibs.testing.harness import Harness
from tests.kit import sqlite
from tests.kit.machine.machine import ANSWERS, HOT, machine_over
from tests.kit.soak import nightly
from tests.property.running import run

MEMORY = "/dev/shm"
EXAMPLES = sizes.rounds(50, 560)
#: Some examples end early.
STEPS_MIN = sizes.rounds(1_250, 20_000)
#: What a mistake is looked for in, so that chance has no say; the search ends with the first that finds it.
SEARCHED = 560


class TemporaryHarness(Harness):
    """A harness whose folder goes with it."""

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


def temporary_folder() -> str:
    return tempfile.mkdtemp(prefix="dibs-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)


def new_board(broken: str | None = None) -> Harness:
    folder = temporary_folder()
    made = sqlite.harness(folder, broken=broken)
    return TemporaryHarness(made.recipe()["call"], made.recipe()["kwargs"], made.clock, folder)


@pytest.fixture(autouse=True)
def no_dice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure can be had again only if everything is: the jitter of retries is the one thing a store draws."""
    monkeypatch.setattr(randomness, "uniform", lambda *_: 0.37)


def test_the_store_does_what_the_model_does() -> None:
    machine = machine_over(new_board)
    run(machine, EXAMPLES, [Phase.generate, Phase.shrink])
    print(f"{machine.steps} steps: {dict(sorted(machine.met.items()))}")
    missing = (ANSWERS if sizes.FACTOR > 1 else HOT) - set(machine.met)
    assert not missing, f"never met: {missing}"
    assert machine.steps >= STEPS_MIN


@pytest.mark.parametrize(
    "broken",
    [
        "double-claim",
        # By chance it takes hundreds of examples; tests/conformance/test_broken_stores.py finds it at every commit.
        *nightly("ignores-the-token"),
        "lowest-first",
        "forgets-nothing",
        "hands-over-under-the-old-token",
        "releases-then-claims",
        "begins-an-ended-subject-anew",
    ],
)
def test_a_broken_store_does_not(broken: str) -> None:
    machine = machine_over(lambda: new_board(broken))
    with pytest.raises((AssertionError, DibsError)):
        run(machine, SEARCHED, [Phase.generate])


def last_come_first_served(now: int, state: State, settings: Any) -> Step:
    turned = tuple(ticket.replace(id=-ticket.id) for ticket in reversed(state.tickets))
    step = AVAILABLE(now, state.replace(tickets=turned), settings)
    return step.replace(closed=tuple(ticket.replace(id=-ticket.id) for ticket in step.closed))


def ticket_survives_its_offer(now: int, state: State) -> Step:
    return LAPSE(now, state).replace(closed=())


AVAILABLE, LAPSE, LEAVE = queueing.available, queueing.lapse, queueing.leave
ROOM, APPROVE = limits.refusal, reviewing.approve

#: A mistake in the rules, by what it does: where it is made, and what stands there instead.
MISTAKES: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "the last in the queue is served first": (queueing, "available", last_come_first_served),
    "a lapsed offer leaves its ticket": (queueing, "lapse", ticket_survives_its_offer),
    "an ended item keeps its queue": (queueing, "follow", lambda now, state, move, settings: (move,)),
    "anybody takes what is offered": (claiming, "offered", lambda now, item: None),
    "who leaves takes the offer along": (queueing, "leave", lambda *asked: (LEAVE(*asked)[0], ())),
    "done frees nobody": (Transaction, "_settle_dependents", lambda self, item, found_by, settle: None),
    "blocked means later": (table, "rest", lambda item, now, *, blocked: "scheduled" if blocked else "ready"),
    "schedules never come": (overdue, "settle", lambda now, state: None),
    "no second try waits": (ending, "delay_seconds", lambda *_, **__: 1e6),
    "sessions are not counted together": (
        limits,
        "refusal",
        lambda now, agent, load: ROOM(now, agent.replace(max_claims_total=None), load),
    ),
    "an agent approves its own draft": (
        reviewing,
        "approve",
        lambda now, state, draft, **asked: APPROVE(now, state, draft and draft.replace(agent=""), **asked),
    ),
    "an approval is for whatever draft there is": (
        reviewing,
        "approve",
        lambda now, state, draft, **asked: APPROVE(now, state, draft, **{**asked, "token": None}),
    ),
}


#: Of these it takes many examples to come upon one that tells: found in a soak.
RARE = {
    *("an agent approves its own draft", "an approval is for whatever draft there is"),
    "a lapsed offer leaves its ticket",
}


@pytest.mark.parametrize("mistake", [one for one in MISTAKES if sizes.FACTOR > 1 or one not in RARE])
def test_a_mistake_in_the_rules_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, instead = MISTAKES[mistake]
    monkeypatch.setattr(where, name, instead)
    with pytest.raises((AssertionError, DibsError)):
        run(machine_over(new_board), SEARCHED, [Phase.generate])
