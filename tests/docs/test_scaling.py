"""docs/operations/scaling.md: its commands exist, and its limits are those of the code."""

from __future__ import annotations

import re

from bench.many_agents import BEAT_SECONDS, PAIR_SECONDS
from bench.parts import NAMES, OF_TARGETS, sentence
from bench.targets import all_targets
from dibs.server.ops.open_files import FileLimit
from dibs.server.ops.run import KEEP_ALIVE_SECONDS
from dibs.store.postgres.connections import CONNECTIONS_MAX
from tests.docs.markdown import read, table

SCALING = read("docs/operations/scaling.md")


def test_its_commands_name_parts_of_the_measurements() -> None:
    named = set(re.findall(r"python -m bench (\w+)", SCALING))
    assert "fleet" in named
    assert named <= set(NAMES)


def test_its_rates_are_those_that_are_simulated() -> None:
    per_second = 1 / BEAT_SECONDS + 2 / PAIR_SECONDS
    assert per_second == 1 / 12
    for agents, requests, pairs, _ in table(SCALING, "agents", "requests/s"):
        number = int(agents.replace(",", ""))
        assert requests == f"{int(number * per_second):,}"
        assert pairs == f"{int(number / PAIR_SECONDS):,}"


def test_its_limits_are_those_of_the_code() -> None:
    assert f"{CONNECTIONS_MAX} for each process of the server" in SCALING
    assert f"idle for {KEEP_ALIVE_SECONDS} seconds" in SCALING
    assert f"1,024 files, {FileLimit(files=1024).connections_max} connections" in SCALING


def test_every_target_names_a_part_that_make_bench_runs() -> None:
    assert {target.part for target in all_targets()} == set(OF_TARGETS)
    assert all(sentence(name) for name in NAMES)
