"""All verbs at once by 32 clients, on few items: nobody hears of a deadlock, and the board is sound afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing import mingling, postgres, sizes
from dibs.testing.invariants import assert_sound
from dibs.testing.mingling import OK, VERBS
from dibs.testing.postgres import PostgresHarness
from dibs.testing.postgres_server import PostgresServer

PROCESSES, THREADS = 4, 8
SECONDS, SECONDS_SOAK = 10.0, 60.0


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with postgres.harness(postgres_server, folder, **mingling.SETTINGS) as harness:
        yield harness


def test_all_verbs_at_once(harness: PostgresHarness) -> None:
    seed, seconds = sizes.seed(), SECONDS if sizes.FACTOR == 1 else SECONDS_SOAK
    board = harness.board()
    mingling.prepare(board)
    gate, actors = harness.gate(), harness.actors(PROCESSES)
    for number, actor in enumerate(actors):
        asked = {"seed": seed + number, "threads": THREADS, "seconds": seconds, "gate": gate.path}
        actor.play("dibs.testing.mingling:mingle", **asked)
        actor.read("at_gate")
    gate.open()
    results = [actor.result() for actor in actors]
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        counts.update({(verb, code): count for verb, code, count in result["counts"]})
    conflicts = sum(result["conflicts"] for result in results)
    mistakes = [mistake for result in results for mistake in result["mistakes"]]
    print(f"seed {seed}: {sum(counts.values())} calls in {seconds:g} s by {PROCESSES * THREADS} clients,")
    print(f"{conflicts} retried after a conflict, the slowest {max(result['slowest'] for result in results)}")
    for verb in VERBS:
        print(f"  {verb}: {dict(sorted((code, n) for (name, code), n in counts.items() if name == verb))}")
    assert not mistakes, f"seed {seed}: {len(mistakes)} calls ended in no answer of the contract:\n" + "\n".join(mistakes[:5])
    assert all(counts[verb, OK] for verb in VERBS), f"never done: {[verb for verb in VERBS if not counts[verb, OK]]}"
    assert_sound(board, f"seed {seed}:")
