"""Thousands of histories of pull requests, their checks and their claims: an item is done exactly when its contract
holds, and no commit of a lost claim is green."""

from __future__ import annotations

import collections
import os
import random
import tempfile
from collections.abc import Callable
from typing import Any

from dibs.testing import sizes
from tests.github import claim_histories, histories
from tests.github.claim_histories import ClaimHistory
from tests.github.histories import History
from tests.kit import sqlite
from tests.kit.keeper import MEMORY

#: Histories at every commit, and in a soak: 10,000 there.
FEW, MANY = 200, 1000
#: Of one board, so that its items do not become too many.
PER_BOARD = 250
#: What has to have occurred in so many histories.
RARE = (
    *("done, green", "done, merged", "merged while ready", "submitted after the merge", "ended in place again"),
    *(
        "reset in place",
        "crowd",
        "renamed",
        "reopen_pull",
        "fix",
        "forced",
        "stranger",
        "sent back",
        "ends as pending_approval",
    ),
)


#: Nothing is shown about crashes here: the boards are in memory, where the machine has such a folder.
FOLDER = MEMORY if os.path.isdir(MEMORY) else None


RARE_CLAIMS = (
    *("a lost commit is red", "a live commit is green", "a lost commit elsewhere", "a green commit without a branch"),
    *("unsigned", "fork", "restart", "push_on_top", "close_pull"),
)


def test_an_item_is_done_exactly_when_its_contract_holds() -> None:
    def run(history: History) -> None:
        for _ in range(histories.STEPS):
            history.step()
        history.settle()

    _run(History, run, RARE)


def test_a_commit_of_a_lost_claim_is_never_green_after_a_poll() -> None:
    """Wherever it is pushed, and whatever it was before."""

    def run(history: ClaimHistory) -> None:
        for _ in range(claim_histories.STEPS):
            history.step()
        history.look()

    _run(ClaimHistory, run, RARE_CLAIMS)


def _run(kind: Any, run: Callable[[Any], None], rare: tuple[str, ...]) -> None:
    seed, met = sizes.seed(), collections.Counter[str]()
    count = sizes.rounds(FEW, MANY)
    for first in range(0, count, PER_BOARD):
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder, sqlite.harness(folder) as harness:
            board = harness.board()
            for number in range(first, min(first + PER_BOARD, count)):
                history = kind(board, number, random.Random(f"{seed} {number}"))
                try:
                    run(history)
                except BaseException as error:
                    error.add_note(f"DIBS_SEED={seed}, history {number}: {'; '.join(history.trace)}")
                    raise
                finally:
                    met += history.met
                    history.close()
    print(f"seed {seed}: {count} histories, {dict(met)}")
    assert [one for one in rare if not met[one]] == [], f"seed {seed}"
