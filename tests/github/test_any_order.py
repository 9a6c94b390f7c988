"""Under any policy, the order in which deliveries arrive makes no difference."""

from __future__ import annotations

import itertools
import random
from typing import Any

from dibs.github.policy import IGNORE, MAKE, REPRIORITISE, VERBS, Policy, Rule
from dibs.model import ENDED
from dibs.testing import sizes
from tests.github.conftest import GitHub
from tests.github.payloads import at, issue

POLICIES = 12
LABELS = ("urgent", "wontfix", "bug")


def any_rule(chosen: random.Random) -> Rule:
    do = chosen.choice(VERBS)
    priority = chosen.randrange(1, 11) if do in (MAKE, REPRIORITISE) else None
    return Rule(do=do, labels=(chosen.choice(LABELS),), priority=priority, type="chosen" if do == MAKE else None)


def any_state(chosen: random.Random, second: int) -> dict[str, Any]:
    return {
        "labels": chosen.sample(LABELS, chosen.randrange(3)),
        "title": chosen.choice(("one", "two")),
        "state": chosen.choice(("open", "open", "closed")),
        "updated_at": at(second),
    }


def end_of(github: GitHub, number: int) -> Any:
    """What became of the issue. Not its type, which is that of the rule that made it."""
    found = github.board.list(subject=f"github:acme/shop#{number}", limit=2)
    if not found or found[0].status in ENDED:
        return "over"
    (item,) = found
    return item.status, item.priority, item.title, item.labels


def test_deliveries_converge_in_every_order_under_any_policy(github: GitHub) -> None:
    seed = sizes.seed()
    chosen, numbers = random.Random(seed), itertools.count(1)
    met: set[Any] = set()
    for _ in range(sizes.times(POLICIES)):
        rules = tuple(any_rule(chosen) for _ in range(chosen.randrange(4)))
        github.policy = Policy(rules=(*rules, *Policy().rules))
        states = [any_state(chosen, second) for second in range(3)]
        ends = {}
        for order in itertools.permutations(states):
            number = next(numbers)
            for state in order:
                github.tell(issue(number, **state))
            ends[end_of(github, number)] = [state["updated_at"] for state in order]
        assert len(ends) == 1, f"seed {seed}: {rules} {states} {ends}"
        met |= ends.keys()
    assert len(met) > 1, f"seed {seed}: every end was the same"


def test_an_ignored_label_does_not_reprioritise_in_any_order(github: GitHub) -> None:
    before = (Rule(do=REPRIORITISE, labels=("urgent",), priority=9), Rule(do=IGNORE, labels=("urgent",)))
    github.policy = Policy(rules=(*before, *Policy().rules))
    states: list[dict[str, Any]] = [
        {"labels": labels, "updated_at": at(second)} for second, labels in enumerate(([], ["urgent"]))
    ]
    for number, order in enumerate(itertools.permutations(states), 1):
        for state in order:
            github.tell(issue(number, **state))
    assert end_of(github, 1) == end_of(github, 2)
