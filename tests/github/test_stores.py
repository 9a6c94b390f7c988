"""The same end on every store, whichever process is told, in which order and how often."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.github.decide import remembered
from dibs.github.policy import Policy
from dibs.testing.invariants import assert_sound
from tests.github.conftest import BUILD, GitHub, claimed
from tests.github.payloads import at, issue, run
from tests.github.test_converging import STORY
from tests.kit import postgres, sqlite
from tests.kit.http import HttpHarness


class Processes:
    """Two that are told by turns, and share nothing but the board."""

    def __init__(self, *told: GitHub) -> None:
        self.told, self.board, self.item = told, told[0].board, told[0].item
        self._turns = itertools.cycle(told)

    def tell(self, told: Any, delivery: str | None = None) -> None:
        next(self._turns).tell(told, delivery=delivery)


@pytest.fixture(params=["sqlite", "postgres", "http"])
def github(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Processes]:
    if request.param == "postgres":
        harness: Any = postgres.harness(request.getfixturevalue("postgres_server"), tmp_path)
    else:
        harness = sqlite.harness(tmp_path)
    with HttpHarness(harness, [request.getfixturevalue("http_host")]) if request.param == "http" else harness as used:
        yield Processes(*(GitHub(used.board(), Policy(), f"{name}-") for name in "ab"))


def numbered(told: Any, number: int) -> Any:
    return {**told, "issue": {**told["issue"], "number": number}}


def statuses(github: Processes, subject: str) -> list[str]:
    return [one.status for one in github.board.list(subject=subject, limit=5)]


def test_deliveries_converge_in_any_order(github: Processes) -> None:
    found = set()
    for number, order in enumerate(random.Random(7).sample(list(itertools.permutations(STORY)), 6), start=1):
        for told in (*order, order[0]):
            github.tell(numbered(told, number))
        item = github.item(f"github:acme/shop#{number}")
        found.add((item.title, item.body, item.priority, item.labels, remembered(item)["version"], item.status))
    assert [one[:3] for one in found] == [("Login fails", "Steps: none.", 10)]
    assert_sound(github.board)


def test_an_end_that_comes_late_or_early_ends_the_work_for_good(github: Processes) -> None:
    closed = issue(updated_at=at(9), state="closed", action="closed")
    for number, order in enumerate(itertools.permutations((STORY[0], STORY[1], closed)), start=1):
        for told in order:
            github.tell(numbered(told, number))
        assert statuses(github, f"github:acme/shop#{number}") == ([] if order[0] is closed else ["cancelled"]), order
    github.tell(numbered(issue(updated_at=at(10)), number))
    assert statuses(github, f"github:acme/shop#{number}") == ["ready"], "it was reopened"
    for number, runs in enumerate(itertools.permutations((run(1, "failure"), run(2, "failure"), run(3, "success")))):
        for told in runs:
            github.tell({**told, "workflow_run": {**told["workflow_run"], "head_branch": f"b{number}"}})
        expected = [] if runs[0]["workflow_run"]["run_number"] == 3 else ["done"]
        assert statuses(github, BUILD.replace("@main", f"@b{number}")) == expected, runs


def test_duplicates_at_once_change_nothing_twice_and_an_end_is_final(github: Processes) -> None:
    story = [issue(), issue(labels=["critical"], updated_at=at(1)), issue(state="closed", updated_at=at(2))]
    errors: list[BaseException] = []
    numbers = range(1, 6)

    def tell(of: GitHub, seed: int) -> None:
        try:
            for number in numbers:
                for place in random.Random(seed + number).sample(range(3), 3):
                    of.tell(numbered(story[place], number), delivery=f"same-{number}-{place}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=tell, args=(github.told[seed % 2], seed)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for number in numbers:
        assert statuses(github, f"github:acme/shop#{number}") in (["cancelled"], [])
    for item in github.board.list(limit=100):
        kinds = Counter(event.kind for event in github.board.log(item.id))
        assert kinds["added"] == kinds["cancelled"] == 1
    assert_sound(github.board)


def test_an_item_whose_issue_was_closed_is_not_handed_out_again(github: Processes) -> None:
    github.tell(issue())
    board, item = github.board, github.item().id
    session, token = claimed(board, item)
    github.tell(issue(state="closed", updated_at=at(1)))
    assert board.release(item, session=session, token=token).item.status == "cancelled"
    assert board.next(session=session) == ()
    assert "closed on GitHub" in board.log(item)[-1].data["over"]
    github.tell(issue(updated_at=at(2)))
    assert github.item().id != item, "reopened: there is work again"
    session, token = claimed(board, github.item().id)
    github.tell(issue(state="closed", updated_at=at(3)))
    github.tell(issue(updated_at=at(4)))
    assert board.release(github.item().id, session=session, token=token).item.status == "ready", "reopened meanwhile"
