"""Actors out of the green room: as real and as fresh as processes that are started, and told of like children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.testing.harness import Harness
from tests.kit import sqlite
from tests.kit.processes import left_after
from tests.kit.waiting import PATIENCE_SECONDS

#: Calls an actor and dies without a word to anybody.
ABANDON = """
import os, signal, sys
from tests.kit import sqlite
print(sqlite.harness(sys.argv[1]).actor().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with sqlite.harness(tmp_path) as harness:
        yield harness


def test_each_actor_is_a_process_of_its_own(harness: Harness) -> None:
    one, other = harness.actors(2)
    assert len({os.getpid(), one.pid, other.pid}) == 3
    one.kill()
    assert one.process.returncode == -signal.SIGKILL
    assert other.ask("start_session", "ann").code is None


def test_an_actor_has_the_environment_of_who_calls_it(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.actor()  # so that the room is there already
    monkeypatch.setenv("CALLED_WITH", "this")
    actor = harness.actor()
    actor.play(f"{__name__}:environment")
    assert actor.result() == "this"


def environment(_: object) -> str | None:
    return os.environ.get("CALLED_WITH")


def test_each_stop_is_told_and_then_how_it_ended(harness: Harness) -> None:
    actor = harness.actor()
    for _ in range(2):
        actor.stop()
        actor.resume()
    assert actor.ask("start_session", "ann").code is None
    actor.leave()
    assert actor.process.returncode == 0


def test_actors_and_their_room_end_with_who_called_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ABANDON, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as abandoning:
        assert abandoning.stdout is not None
        actor = int(abandoning.stdout.readline())
        assert left_after(PATIENCE_SECONDS, [actor]) == []
        assert abandoning.stdout.read() == "", "at its end, since the room that had it as well is gone"
