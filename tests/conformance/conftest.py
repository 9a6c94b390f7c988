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
from tests.kit.soak import NIGHTLY, deselect

MEMORY = "/dev/shm"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own for one test."""
    made = tempfile.mkdtemp(prefix="dibs-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    yield Path(made)
    shutil.rmtree(made)


#: Over HTTP, every commit is held to these groups; the others run there in a soak, or with `DIBS_TEST_HTTP=all`. What
#: decides a race is the store behind the server, which is held to all groups by itself.
OVER_HTTP = {
    "test_http_sqlite": {
        *("TestRacing", "TestFencing", "TestClaims", "TestIdempotency", "TestFinishAndNext", "TestLostAnswers"),
        *("TestWaiting", "TestTurns", "TestPatience", "TestReadsAgainstTime", "TestDeadOwners", "TestAnswers"),
        *("TestFollowing", "TestLive", "TestInterruptions"),
    },
    "test_http_postgres": {"TestFollowing"},
    "test_http_postgres_cut": set(),
}
#: Minutes of processes that wait for each other, or thousands of reads: at every commit these run on SQLite alone.
LONG = {
    "test_of_sixty_four_processes_one_wins_each_round",
    "test_sixteen_processes_drain_all_items_each_once_and_fairly",
    "test_processes_that_take_turns_are_served_in_ticket_order_and_at_once",
    "test_no_waiter_starves_in_a_thousand_hand_overs",
    "test_a_storm_of_kills_loses_nothing",
}
#: Long over HTTP, where each read is a request.
LONG_OVER_HTTP = {"test_at_any_instant_of_a_storm_a_read_says_what_a_claim_meets"}
#: What one lock decides on a vault as on SQLite, and PostgreSQL with locks of many kinds.
LONG_ON_VAULT = {
    "test_many_claimers_of_one_agent_never_hold_more_than_it_may",
    "test_items_that_touch_are_never_held_by_two_sessions",
    "test_twenty_waiters_are_served_in_order_however_their_holders_leave",
    "test_claims_go_on_while_a_board_is_pruned",
    "test_a_waiter_gets_what_a_dead_owner_held",
    "test_of_many_processes_that_claim_a_new_subject_one_adds_it_and_one_holds_it",
    "test_adders_and_claimers_of_one_subject_meet_at_one_item",
    "test_a_hand_over_against_the_holders_other_calls_and_claims_is_before_or_after_them",
}
#: Hundreds of calls each, an eighth of the time of the suite on PostgreSQL: at night. That its functions restate the
#: rules is shown at every commit by the machine over both stores, the mistakes in functions and the rest of the groups.
AT_NIGHT_ON_POSTGRES = {
    "test_every_illegal_transition_is_refused_and_changes_nothing",
    "test_at_any_instant_of_a_storm_a_read_says_what_a_claim_meets",
    "test_without_a_request_id_a_verb_did_what_it_says_or_says_that_it_is_not_known",
    "test_without_a_request_id_an_earlier_effect_is_not_taken_for_ones_own",
    "test_an_interrupted_verb_is_done_once_or_not_at_all",
}
#: On a vault with a remote, where each claim is a push, every commit is held to these; the others run where all of a
#: vault's do.
ON_SYNCED_VAULT = {"TestClaims", "TestFencing"}
ALL_OVER_HTTP = sizes.FACTOR > 1 or os.environ.get("DIBS_TEST_HTTP") == "all"
ALL_ON_VAULT = sizes.FACTOR > 1 or os.environ.get("DIBS_TEST_VAULT") == "all"


#: Of a module, the groups that it is held to; of others, all.
GROUPS = ({} if ALL_OVER_HTTP else OVER_HTTP) | ({} if ALL_ON_VAULT else {"test_vault_synced": ON_SYNCED_VAULT})


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str) -> list[pytest.Item] | None:
    """Groups that are left out are not made into tests, which each worker would do and drop."""
    return [] if name.startswith("Test") and name not in GROUPS.get(collector.path.stem, {name}) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deselect(config, items, _is_left_for_later)


def _is_left_for_later(item: pytest.Item) -> bool:
    if item.path.stem == "test_vault":
        return not ALL_ON_VAULT and item.name in LONG | LONG_ON_VAULT
    if item.path.stem == "test_postgres":
        return (sizes.FACTOR == 1 and item.name in LONG) or (not NIGHTLY and item.name in AT_NIGHT_ON_POSTGRES)
    return not ALL_OVER_HTTP and item.path.stem in OVER_HTTP and item.name in LONG | LONG_OVER_HTTP
