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
from tests.kit.soak import NIGHTLY

#: Histories at every commit, at night, and in a soak: 10,000 there. Single histories of each kind are in
#: test_following.py, test_verdicts.py and test_claim_status.py.
FEW, AT_NIGHT, MANY = 60, 400, 1000
#: Of one board, so that its items do not become too many.
PER_BOARD = 250
#: What has to have occurred, at every commit and in many histories.
COMMON = ("done, merged", "ended in place again", "reset in place", "reopen_pull", "stranger", "sent back")
RARE = (
    *("done, green", "merged while ready", "submitted after the merge", "crowd", "renamed", "fix", "forced"),
    "ends as pending_approval",
)
COMMON_CLAIMS = ("a lost commit is red", "a live commit is green", "a lost commit elsewhere", "unsigned", "restart")
RARE_CLAIMS = (*("a green commit without a branch", "fork", "push_on_top", "close_pull"),)
#: Nothing is shown about crashes here: the boards are in memory, where the machine has such a folder.
FOLDER = MEMORY if os.path.isdir(MEMORY) else None


def test_an_item_is_done_exactly_when_its_contract_holds() -> None:
    def run(history: History) -> None:
        for _ in range(histories.STEPS):
            history.step()
        history.settle()

    _run(History, run, COMMON, RARE)


def test_a_commit_of_a_lost_claim_is_never_green_after_a_poll() -> None:
    """Wherever it is pushed, and whatever it was before."""

    def run(history: ClaimHistory) -> None:
        for _ in range(claim_histories.STEPS):
            history.step()
        history.look()

    _run(ClaimHistory, run, COMMON_CLAIMS, RARE_CLAIMS)


def _run(kind: Any, run: Callable[[Any], None], common: tuple[str, ...], rare: tuple[str, ...]) -> None:
    seed, met = sizes.seed(), collections.Counter[str]()
    count = sizes.rounds(AT_NIGHT if NIGHTLY else FEW, MANY)
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
    assert [one for one in (*common, *(rare if NIGHTLY else ())) if not met[one]] == [], f"seed {seed}"
