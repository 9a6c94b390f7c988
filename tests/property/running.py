"""Runs a state machine with the settings of these tests."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.kit.machine.machine import BoardMachine

STEPS = 50


def run(machine: type[BoardMachine], examples: int, phases: list[Phase]) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=phases,
        database=None,
        # The first is enough: after it, others would be looked for, and several are told as a group.
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine, settings=chosen)
