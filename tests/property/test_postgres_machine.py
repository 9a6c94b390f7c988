"""PostgreSQL beside SQLite and the reference model: what its functions restate is what the rules decide."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable

import psycopg
import pytest
from hypothesis import Phase

from dibs import randomness
from dibs.errors import DibsError
from dibs.testing import sizes
from dibs.testing.harness import Harness
from tests.kit import postgres, sqlite
from tests.kit.machine.machine import ANSWERS, HOT, machine_over
from tests.kit.postgres_server import PostgresServer
from tests.kit.twin import TwinHarness
from tests.property.running import run
from tests.property.test_mistakes_in_functions import STORIES, spoil

MEMORY = "/dev/shm"
#: Fewer than SQLite has alone, since every step is taken on two boards; the soak makes up for it.
EXAMPLES = sizes.rounds(30, 120)
#: Some examples end early.
STEPS_MIN = sizes.rounds(700, 3_000)


@pytest.fixture(autouse=True)
def no_dice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jitter of retries is the one thing a store draws; both draw the same."""
    monkeypatch.setattr(randomness, "uniform", lambda *_: 0.37)


class Twins(TwinHarness):
    def close(self) -> None:
        try:
            super().close()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def twins(server: PostgresServer, spoil: Callable[[str], None] | None = None) -> Harness:
    folder = tempfile.mkdtemp(prefix="dibs-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    restated = postgres.harness(server, folder)
    if spoil is not None:
        spoil(server.url(restated.database))
    return Twins(sqlite.harness(folder), restated)


def test_functions_and_rules_and_the_model_agree(postgres_server: PostgresServer) -> None:
    machine = machine_over(lambda: twins(postgres_server))
    run(machine, EXAMPLES, [Phase.generate, Phase.shrink])
    print(f"{machine.steps} steps: {dict(sorted(machine.met.items()))}")
    missing = (ANSWERS if sizes.FACTOR > 1 else HOT) - set(machine.met)
    assert not missing, f"never met: {missing}"
    assert machine.steps >= STEPS_MIN


#: More examples than a mistake needs, so that chance has no say; the search ends with the first that finds it.
SEARCHED = 480


#: For every commit each mistake has its story (`test_mistakes_in_functions`), and one is searched for.
COMMON = "done frees nobody"


@pytest.mark.parametrize("mistake", [one for one in STORIES if sizes.FACTOR > 1 or one == COMMON])
def test_a_mistake_in_a_function_is_found(mistake: str, postgres_server: PostgresServer) -> None:
    function, right, wrong, _ = STORIES[mistake]
    spoiled = machine_over(lambda: twins(postgres_server, lambda url: spoil(url, function, right, wrong)))
    with pytest.raises((AssertionError, DibsError, psycopg.Error)):
        run(spoiled, SEARCHED, [Phase.generate])
