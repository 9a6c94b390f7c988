"""Stores with one mistake each: the group that is to find it does, so each group has been seen to fail."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.errors import DibsError
from dibs.testing import sqlite
from dibs.testing.broken import BROKEN
from dibs.testing.conformance import GROUPS, agent_limits, dependencies, interruptions, resources
from dibs.testing.harness import Harness

Test = Callable[[Harness], None]


def of_group(group: str, only: str | None) -> Iterator[tuple[str, Test]]:
    """The tests of a group, by name, or only the one."""
    module = importlib.import_module(f"dibs.testing.conformance.{group}")
    for cls in vars(module).values():
        if isinstance(cls, type) and cls.__module__ == module.__name__ and cls.__name__.startswith("Test"):
            for name in vars(cls):
                if name.startswith("test_") and only in (None, name):
                    yield name, getattr(cls(), name)


def passes(test: Test, folder: Path, broken: str | None) -> bool:
    folder.mkdir()
    with sqlite.harness(folder, broken=broken) as harness:
        try:
            test(harness)
        except Exception as failure:
            where = traceback.extract_tb(failure.__traceback__)[-1].filename
            if isinstance(failure, DibsError) or "/broken/" not in where:
                return False
            raise  # the mistake itself is mistaken
    return True


def finds(test: Test, name: str, folder: Path) -> bool:
    """The test fails on the broken store, and passes on a sound one: it is the mistake that it found."""
    return not passes(test, folder / "broken", name) and passes(test, folder / "sound", None)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_store_is_found_out(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A mistake shows in a short race, too.
    for racing in (agent_limits, dependencies, resources):
        monkeypatch.setattr(racing, "ROUNDS", 60)
    # Those that the mistakes are about.
    interrupted = {name: interruptions.VERBS[name] for name in ("claim", "progress")}
    monkeypatch.setattr(interruptions, "VERBS", interrupted)
    monkeypatch.setattr(interruptions, "UNREPEATABLE", ("progress",))
    mistake = BROKEN[name]
    tests = list(of_group(mistake.group, mistake.test))
    assert tests, f"{mistake.group} has no test {mistake.test}"
    found_by = next((test for test, run in tests if finds(run, name, made(folder / test[:60]))), None)
    assert found_by, f"{name} went through the whole group {mistake.group}"
    print(f"{name}: found by {found_by}")


def test_every_group_has_been_seen_to_fail() -> None:
    assert {mistake.group for mistake in BROKEN.values()} == set(GROUPS)
