"""Thousands of histories of a pull request and its checks: an item is done exactly when its contract holds."""

from __future__ import annotations

import collections
import os
import random
import tempfile

from dibs.testing import sizes
from tests.github.histories import STEPS, History
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


def test_an_item_is_done_exactly_when_its_contract_holds() -> None:
    seed, met = sizes.seed(), collections.Counter[str]()
    count = sizes.rounds(FEW, MANY)
    for first in range(0, count, PER_BOARD):
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder, sqlite.harness(folder) as harness:
            board = harness.board()
            for number in range(first, min(first + PER_BOARD, count)):
                history = History(board, number, random.Random(f"{seed} {number}"))
                try:
                    for _ in range(STEPS):
                        history.step()
                    history.settle()
                except BaseException as error:
                    error.add_note(f"DIBS_SEED={seed}, history {number}: {history.contract} {history.policy.checks}")
                    error.add_note("; ".join(history.trace))
                    raise
                finally:
                    met += history.met
                    history.close()
    print(f"seed {seed}: {count} histories, {dict(met)}")
    assert [one for one in RARE if not met[one]] == [], f"seed {seed}"
