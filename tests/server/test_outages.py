"""Workers over HTTP while the network fails and the server is killed: nothing acknowledged is lost, nothing is doubled,
and an answer that got lost is never taken for a refusal."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing import postgres, sizes, sqlite
from dibs.testing.chaos import FATES, ChaosProxy
from dibs.testing.conformance.asking import added
from dibs.testing.directing import Troupe, assert_nothing_lost
from dibs.testing.harness import Harness
from dibs.testing.http import Host
from dibs.testing.postgres_server import PostgresServer

WORKERS, ITEMS = 4, 24
#: Enough for each of the fates to befall somebody.
CHAOS_ROUNDS, KILLS = 25, 6
CALM_SECONDS_MAX = 0.3
#: Answers come at once or not at all: a silent connection is given up after this long.
SETTINGS = {"lock_wait_seconds": 1.0}


@pytest.fixture(params=["sqlite", "postgres"])
def harness(request: pytest.FixtureRequest, folder: Path) -> Iterator[Harness]:
    if request.param == "sqlite":
        made: Harness = sqlite.harness(folder)
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        made = postgres.harness(server, folder)
    with made:
        yield made


def recipe(servers: list[tuple[str, str]]) -> dict[str, object]:
    return {"call": "dibs.testing.http:open_board", "kwargs": {"servers": servers, "settings": SETTINGS}}


def test_a_failing_network_doubles_nothing_and_loses_nothing(harness: Harness, http_host: Host) -> None:
    seed = sizes.seed()
    board = harness.board()
    added(board, *(f"item-{number:02}" for number in range(ITEMS)))
    with ChaosProxy(seed) as proxy:
        url, key = http_host.serve(harness.recipe(), hosts=[proxy.host])
        proxy.target = int(url.rpartition(":")[2])
        with Troupe(recipe([(f"http://{proxy.host}", key)]), harness.folder, WORKERS, seed) as troupe:
            for _ in range(sizes.times(CHAOS_ROUNDS)):
                troupe.await_answers()
            counts, calls = troupe.stop(), troupe.calls()
        fired = dict(proxy.fired)
        http_host.stop(url)
    print(f"seed {seed}: {fired}; {dict(counts)}; {len(calls)} calls")
    assert all(fired.get(fate) for fate in FATES), f"seed {seed}: not everything happened: {fired}"
    assert counts["reconnects"] > 0, f"seed {seed}: nothing was asked again: {dict(counts)}"
    for code in ("NOT_CLAIM_OWNER", "TASK_NOT_CLAIMED", "CLAIM_EXPIRED", "INVALID"):
        assert not counts[code], f"seed {seed}: {counts[code]} answers that got lost were taken for {code}"
    assert_nothing_lost(calls, board, f"seed {seed}:")


def test_a_server_killed_under_load_loses_nothing_that_was_acknowledged(harness: Harness) -> None:
    seed = sizes.seed()
    draw = random.Random(seed)
    board = harness.board()
    added(board, *(f"item-{number:02}" for number in range(ITEMS)))
    host = Host()
    try:
        url, key = host.serve(harness.recipe())
        with Troupe(recipe([(url, key)]), harness.folder, WORKERS, seed) as troupe:
            for _ in range(sizes.times(KILLS)):
                # The moment is what is random here; nothing is waited for.
                time.sleep(draw.random() * CALM_SECONDS_MAX)
                host.close()
                host = Host()
                host.serve(harness.recipe(), port=int(url.rpartition(":")[2]))
                troupe.await_answers()
            counts, calls = troupe.stop(), troupe.calls()
    finally:
        host.close()
    print(f"seed {seed}: {dict(counts)}; {len(calls)} calls")
    assert counts["reconnects"] > 0, f"seed {seed}: nobody noticed: {dict(counts)}"
    assert_nothing_lost(calls, board, f"seed {seed}:")
