"""The SQLite store against the reference model: twenty thousand random steps, more in a soak."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from dibs.errors import DibsError
from dibs.testing import sizes, sqlite
from dibs.testing.harness import Harness
from dibs.testing.machine import ANSWERS, BoardMachine, machine_over

MEMORY = "/dev/shm"
EXAMPLES, STEPS = 460, 50
#: Some examples end early.
STEPS_MIN = 20_000


class TemporaryHarness(Harness):
    """A harness whose folder goes with it."""

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


def new_board(broken: str | None = None) -> Harness:
    folder = tempfile.mkdtemp(prefix="dibs-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    made = sqlite.harness(folder, broken=broken)
    return TemporaryHarness(made.recipe()["call"], made.recipe()["kwargs"], made.clock, folder)


def run(machine: type[BoardMachine], examples: int, phases: list[Phase]) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=phases,
        database=None,
    )
    run_state_machine_as_test(machine, settings=chosen)


def test_the_store_does_what_the_model_does() -> None:
    machine = machine_over(new_board)
    run(machine, sizes.times(EXAMPLES), [Phase.generate, Phase.shrink])
    print(f"{machine.steps} steps: {dict(sorted(machine.met.items()))}")
    missing = ANSWERS - set(machine.met)
    assert not missing, f"never met: {missing}"
    assert machine.steps >= sizes.times(STEPS_MIN)


@pytest.mark.parametrize(
    "broken",
    [
        "double-claim",
        "ignores-the-token",
        "lowest-first",
        "forgets-nothing",
    ],
)
def test_a_broken_store_does_not(broken: str) -> None:
    machine = machine_over(lambda: new_board(broken))
    with pytest.raises((AssertionError, DibsError)):
        run(machine, EXAMPLES, [Phase.generate])
