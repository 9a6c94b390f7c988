"""Where boards of this suite live: in memory if the machine has such a place, since durability costs time, not proof.

What a kill leaves behind is the same there: it is the kernel's memory either way. Power cuts are another suite's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing import sizes

MEMORY = "/dev/shm"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own for one test."""
    made = tempfile.mkdtemp(prefix="dibs-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    yield Path(made)
    shutil.rmtree(made)


#: Over HTTP, every commit is held to these groups; the others run there in a soak, or with `DIBS_TEST_HTTP=all`.
OVER_HTTP = {
    "test_http_sqlite": {
        *("TestRacing", "TestFencing", "TestClaims", "TestIdempotency", "TestFinishAndNext", "TestLostAnswers"),
        *("TestWaiting", "TestTurns", "TestPatience", "TestReadsAgainstTime", "TestDeadOwners", "TestAnswers"),
        *("TestFollowing", "TestInterruptions"),
    },
    "test_http_postgres": {"TestRacing", "TestReadsAgainstTime", "TestFollowing"},
    "test_http_postgres_cut": set(),
}
#: Too long for every commit over HTTP: minutes of processes that wait for each other.
LONG = {
    "test_of_sixty_four_processes_one_wins_each_round",
    "test_sixteen_processes_drain_all_items_each_once_and_fairly",
    "test_a_storm_of_kills_loses_nothing",
}
#: And on a vault, where each claim is several files.
LONG_ON_VAULT = {
    "test_processes_that_take_turns_are_served_in_ticket_order_and_at_once",
    "test_no_waiter_starves_in_a_thousand_hand_overs",
    "test_of_sixty_four_processes_one_wins_each_round",
    "test_sixteen_processes_drain_all_items_each_once_and_fairly",
}
#: On a vault with a remote, where each claim is a push, every commit is held to these; the others run where all of a
#: vault's do.
ON_SYNCED_VAULT = {"TestClaims", "TestFencing"}
#: And on PostgreSQL, where sixty-four processes on two cores are a matter of the processes.
LONG_ON_POSTGRES = {
    "test_of_sixty_four_processes_one_wins_each_round",
    "test_sixteen_processes_drain_all_items_each_once_and_fairly",
    "test_processes_that_take_turns_are_served_in_ticket_order_and_at_once",
    "test_no_waiter_starves_in_a_thousand_hand_overs",
}
ALL_OVER_HTTP = sizes.FACTOR > 1 or os.environ.get("DIBS_TEST_HTTP") == "all"
ALL_ON_VAULT = sizes.FACTOR > 1 or os.environ.get("DIBS_TEST_VAULT") == "all"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = [item for item in items if _is_left_for_later(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def _is_left_for_later(item: pytest.Item) -> bool:
    if item.path.stem == "test_vault":
        return not ALL_ON_VAULT and item.name in LONG_ON_VAULT
    if item.path.stem == "test_vault_synced":
        return not ALL_ON_VAULT and ON_SYNCED_VAULT.isdisjoint(item.nodeid.split("::"))
    if item.path.stem == "test_postgres":
        return sizes.FACTOR == 1 and item.name in LONG_ON_POSTGRES
    groups = OVER_HTTP.get(item.path.stem)
    group = item.nodeid.split("::")[1]
    return not ALL_OVER_HTTP and groups is not None and (group not in groups or item.name in LONG)
