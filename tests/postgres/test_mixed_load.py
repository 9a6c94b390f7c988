"""All verbs at once by 32 clients, on few items: nobody hears of a deadlock, and the board is sound afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.testing import sizes
from dibs.testing.actors import Actor
from dibs.testing.invariants import assert_sound
from tests.kit import random_clients
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer
from tests.kit.random_clients import OK, VERBS

PROCESSES, THREADS = 4, 8
ROUND_SECONDS = 2.5 if sizes.FACTOR == 1 else 5.0
#: Rounds are added until every verb was done once: on a machine that others use as well, one may not be enough.
ROUNDS, ROUNDS_SOAK, ROUNDS_MORE_MAX = 2, 12, 16


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with PostgresHarness(postgres_server, postgres_server, folder, {"settings": random_clients.SETTINGS}) as harness:
        yield harness


def test_all_verbs_at_once(harness: PostgresHarness) -> None:
    seed, rounds = sizes.seed(), ROUNDS if sizes.FACTOR == 1 else ROUNDS_SOAK
    board = harness.board()
    random_clients.prepare(board)
    actors = harness.actors(PROCESSES)
    counts: Counter[tuple[str, str]] = Counter()
    for number in range(rounds + ROUNDS_MORE_MAX):
        results = play(harness, actors, seed + 100 * number)
        for result in results:
            counts.update({(verb, code): count for verb, code, count in result["counts"]})
        mistakes = [mistake for result in results for mistake in result["mistakes"]]
        assert not mistakes, f"seed {seed}: {len(mistakes)} calls ended in no answer of the contract:\n{mistakes[0]}"
        if number + 1 >= rounds and all(counts[verb, OK] for verb in VERBS):
            break
    # What a store had to do again it counts from its beginning on.
    conflicts = sum(result["conflicts"] for result in results)
    print(f"seed {seed}: {sum(counts.values())} calls in {(number + 1) * ROUND_SECONDS:g} s by {PROCESSES * THREADS}")
    print(f"clients, {conflicts} retried after a conflict, the slowest {max(result['slowest'] for result in results)}")
    for verb in VERBS:
        print(f"  {verb}: {dict(sorted((code, n) for (name, code), n in counts.items() if name == verb))}")
    assert all(counts[verb, OK] for verb in VERBS), f"never done: {[verb for verb in VERBS if not counts[verb, OK]]}"
    assert_sound(board, f"seed {seed}:")


def play(harness: PostgresHarness, actors: list[Actor], seed: int) -> list[dict[str, Any]]:
    """One round of all clients."""
    gate = harness.gate()
    for number, actor in enumerate(actors):
        asked = {"seed": seed + number, "threads": THREADS, "seconds": ROUND_SECONDS, "gate": gate.path}
        actor.play("tests.kit.random_clients:mingle", **asked)
        actor.read("at_gate")
    gate.open()
    return [actor.result() for actor in actors]
