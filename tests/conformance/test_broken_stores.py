"""Stores with one mistake each: the group that is to find it does, so each group has been seen to fail."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.errors import DibsError
from dibs.testing.conformance import (
    GROUPS,
    following,
    interruptions,
    lost_answers,
)
from dibs.testing.conformance.reads_against_time import TestReadsAgainstTime as Reads
from dibs.testing.harness import Harness
from tests.kit import sqlite
from tests.kit.broken import BROKEN
from tests.kit.http import Host, HttpHarness
from tests.kit.soak import NIGHTLY

Test = Callable[[Harness], None]
Opened = Callable[[Path, str | None], Harness]

#: The group that cuts connections: these mistakes are made behind a server.
OVER_A_WIRE = "lost_answers"
#: One storm may miss a rule that is rarely needed.
STORMS_MAX = 10


def of_group(group: str, only: str | None) -> Iterator[tuple[str, Test]]:
    """The tests of a group, by name, or only the one."""
    module = importlib.import_module(f"dibs.testing.conformance.{group}")
    for cls in vars(module).values():
        if isinstance(cls, type) and cls.__module__ == module.__name__ and cls.__name__.startswith("Test"):
            for name in vars(cls):
                if name.startswith("test_") and only in (None, name):
                    yield name, getattr(cls(), name)


def passes(test: Test, opened: Opened, folder: Path, broken: str | None) -> bool:
    folder.mkdir()
    with opened(folder, broken) as harness:
        try:
            test(harness)
        except Exception as failure:
            where = traceback.extract_tb(failure.__traceback__)[-1].filename
            if isinstance(failure, DibsError) or "/broken/" not in where:
                return False
            raise  # the mistake itself is mistaken
    return True


def finds(test: Test, opened: Opened, name: str, folder: Path) -> bool:
    """The test fails on the broken store. That it passes on a sound one is shown by `test_sqlite` and, over a wire,
    `test_http_sqlite`; at night it is asked for here, too."""
    found = not passes(test, opened, folder / "broken", name)
    return found and (not NIGHTLY or passes(test, opened, folder / "sound", None))


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_store_is_found_out(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    # A caller that is told nothing need not wait for long.
    monkeypatch.setattr(following, "PATIENCE_SECONDS", 8.0)
    # A mistake shows in a few calls, too.
    few = {"cancel", "progress", "submit of another draft", "release while another holds it"}
    for calls in ("CALLS", "REFUSED"):
        every = getattr(lost_answers, calls)
        monkeypatch.setattr(lost_answers, calls, {one: every[one] for one in every.keys() & few})
    # Those that the mistakes are about.
    interrupted = {name: interruptions.VERBS[name] for name in ("claim", "progress")}
    monkeypatch.setattr(interruptions, "VERBS", interrupted)
    monkeypatch.setattr(interruptions, "UNREPEATABLE", ("progress",))
    mistake = BROKEN[name]

    def opened(folder: Path, broken: str | None) -> Harness:
        made = sqlite.harness(folder, broken=broken)
        if mistake.group != OVER_A_WIRE:
            return made
        host: Host = request.getfixturevalue("http_host")
        return HttpHarness(made, [host])

    tests = list(of_group(mistake.group, mistake.test))
    assert tests, f"{mistake.group} has no test {mistake.test}"
    found_by = next((test for test, run in tests if finds(run, opened, name, made(folder / test[:60]))), None)
    assert found_by, f"{name} went through the whole group {mistake.group}"
    print(f"{name}: found by {found_by}")


def test_every_group_has_been_seen_to_fail() -> None:
    assert {mistake.group for mistake in BROKEN.values()} == set(GROUPS)


@pytest.mark.parametrize("name", [name for name, one in BROKEN.items() if one.group == "reads_against_time"])
def test_the_storm_finds_every_rule_that_reads_can_forget(name: str, folder: Path) -> None:
    storm = Reads().test_at_any_instant_of_a_storm_a_read_says_what_a_claim_meets
    assert any(not passes(storm, sqlite.harness, folder / str(attempt), name) for attempt in range(STORMS_MAX))
