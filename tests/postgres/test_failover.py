"""The primary is killed under load, its synchronous standby promoted: the workers find it by themselves, and nothing
that was acknowledged is lost."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.errors import StoreUnavailable
from dibs.testing import sizes
from dibs.testing.conformance.asking import added, refused
from dibs.testing.history import read_feed
from tests.kit.outage_workers import Troupe, assert_nothing_lost, in_flight, silences
from tests.kit.postgres import make_template, open_board
from tests.kit.postgres_server import LocalServer, url_of_all

DATABASE = "board"
WORKERS, ITEMS = 4, 24
CALM_SECONDS = 1.0
#: Until somebody promotes the standby nobody can do anything; here that is at once.
SERVICE_SECONDS_MAX = 20.0


@pytest.fixture(scope="module")
def primary() -> Iterator[LocalServer]:
    """It is killed by the last test and does not come back, so nothing hangs on its disk."""
    with LocalServer() as primary:
        if not os.path.exists(primary.programs.path("pg_basebackup")):
            pytest.skip("there is no pg_basebackup beside these programs")
        primary.create_database(DATABASE)
        make_template(primary.url(DATABASE))
        yield primary


@pytest.fixture(scope="module")
def standby(primary: LocalServer) -> LocalServer:
    return primary.standby()


def test_a_standby_alone_is_refused_in_one_line(standby: LocalServer) -> None:
    with open_board(url=standby.url(DATABASE), settings={"lock_wait_seconds": 0.5}) as board:
        assert board.list() == (), "it can be read"
        refusal = refused(StoreUnavailable, board.add, "x")
    assert "read-only" in refusal.message
    assert "\n" not in refusal.message
    assert refusal.facts["retry_after_seconds"] > 0


def test_workers_go_on_with_the_standby_and_nothing_acknowledged_is_lost(
    primary: LocalServer, standby: LocalServer, folder: Path
) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    url = url_of_all(DATABASE, primary, standby)
    with open_board(url=url) as board:
        added(board, *(f"item-{number:02}" for number in range(ITEMS)))
    recipe = {"call": "tests.kit.postgres:open_board", "kwargs": {"url": url}}
    with Troupe(recipe, str(folder), WORKERS, seed) as troupe:
        # The moment is what is random here; nothing is waited for.
        time.sleep(CALM_SECONDS * (0.5 + draw.random()))
        killed_ns = time.monotonic_ns()
        primary.kill_postmaster()
        assert not primary.running
        down_ns = time.monotonic_ns()
        standby.promote()
        promoted_ns = troupe.await_answers()
        time.sleep(CALM_SECONDS)
        counts = troupe.stop()
        calls = troupe.calls()
    (quiet,) = silences(calls, [down_ns])
    before = sum(call.end_ns is not None and call.end_ns < killed_ns for call in calls)
    print(f"seed {seed}: {before} calls before, {len(calls) - before} in flight or after; {dict(counts)};")
    print(f"longest without an answer: {quiet:.2f} s, of which {(promoted_ns - killed_ns) / 1e9:.2f} s to promote")
    assert in_flight(calls, killed_ns) > 0, f"seed {seed}: nobody was in the middle of anything"
    assert counts["reconnects"] > 0
    assert quiet < SERVICE_SECONDS_MAX
    with open_board(url=standby.url(DATABASE)) as board:
        assert_nothing_lost(calls, board, f"seed {seed}:")
        _assert_no_token_twice(board, seed)


def _assert_no_token_twice(board: Board, seed: int) -> None:
    given = [(event.item, event.token) for event in read_feed(board) if event.kind == "claimed"]
    assert len(given) == len(set(given)), f"seed {seed}: a token was given twice"
