"""Clones that race for the same items: each is confirmed by exactly one, and the others never start to work on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.maintenance.doctor import examine
from dibs.store.vault.store import VaultStore
from dibs.testing.sizes import FACTOR, rounds
from tests.kit.soak import in_a_soak
from tests.vault.clones import git, make_clone, make_hub, on_hub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

CLONES = 4 if FACTOR == 1 else 6
#: By how many a clone takes at once: a push takes its time, whatever is in it.
ITEMS = {1: rounds(12, 100), 10: rounds(30, 100)}
#: Of those through outages, each of which takes its time.
FEW = rounds(4, 16)
FEW_CLONES = 3 if FACTOR == 1 else 4
#: How many races there are at most until something that comes by chance has come.
RACES_MAX = 5
PATIENCE_SECONDS = 500


def opened(clone: Path) -> Board:
    return Board(VaultStore(str(clone), DEFAULTS, create=True), DEFAULTS, actor="tester")


class Fleet:
    def __init__(self, folder: Path, items: int, clones: int = CLONES, remote: str | None = None) -> None:
        self.folder, self.items = folder, [f"t{number}" for number in range(items)]
        make_hub(folder)
        self.clones = {f"a{number}": make_clone(folder, f"a{number}", remote) for number in range(clones)}
        with opened(self.clones["a0"]) as board:
            board.add_many({"title": item, "id": item} for item in self.items)
            board.store.sync()
        for clone in self.clones.values():
            opened(clone).close()
        self.racing = False
        self._processes: list[subprocess.Popen[str]] = []

    def race(self, batch: int = 1, *more: str) -> list[dict[str, Any]]:
        """Let them all go at once; what they told."""
        for agent in self.clones:
            self.start(agent, batch, *more)
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        self.racing = True
        return [self.end(process) for process in self._processes]

    def start(self, agent: str, batch: int, *more: str) -> None:
        log = str(self.folder / "started.jsonl")
        words = [sys.executable, "-m", "tests.vault.claimant", str(self.clones[agent]), agent, log, str(batch), *more]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    def end(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        told, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0
        found: dict[str, Any] = json.loads(told)
        return found

    def started(self) -> list[dict[str, Any]]:
        path = self.folder / "started.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def check(self) -> None:
        """Every item was started by one; the hub, and each clone after a sync, says that it is that one's."""
        started = self.started()
        assert Counter(one["item"] for one in started) == Counter(self.items)
        told = {f"In_Progress/{one['agent']}/{one['item']}.md" for one in started}
        there = on_hub(self.folder)
        assert {path for path in there if path.endswith(".md")} == told
        for one in started:
            text = there[f"In_Progress/{one['agent']}/{one['item']}.md"]
            assert text.count("# Claimed Task:") == 1
            assert f"**Token**: {one['token']}\n" in text
        git(self.folder / "hub.git", "fsck")
        for clone in self.clones.values():
            with opened(clone) as board:
                board.store.sync()
                held = {(one.item.id, one.claim.agent, one.claim.token) for one in board.who() if one.claim is not None}
                assert held == {(one["item"], one["agent"], one["token"]) for one in started}
                assert [finding.what for finding in examine(board)] == []
            git(clone, "fsck")


@pytest.mark.parametrize("batch", [*in_a_soak(1), 10])
def test_each_item_is_confirmed_by_exactly_one_clone(tmp_path: Path, batch: int) -> None:
    fleet = Fleet(tmp_path, ITEMS[batch])
    fleet.race(batch)
    fleet.check()


def test_a_race_without_the_hubs_word_is_found_out(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 6, clones=2)
    fleet.race(1, "broken")
    assert max(Counter(one["item"] for one in fleet.started()).values()) > 1


def put_between(fleet: Fleet, faults: int) -> None:
    """A connection to the hub that fails so often, of a hundred."""
    for clone in fleet.clones.values():
        for setting, program in (("receivepack", "receive-pack"), ("uploadpack", "upload-pack")):
            script = os.path.join(os.path.dirname(__file__), "cutting.py")
            git(clone, "config", f"remote.origin.{setting}", f"{sys.executable} {script} {program} {faults}")


def take_away(fleet: Fleet) -> None:
    for clone in fleet.clones.values():
        for setting in ("receivepack", "uploadpack"):
            git(clone, "config", "--unset", f"remote.origin.{setting}")


@pytest.mark.nightly
def test_a_hub_that_is_cut_off_in_the_middle_of_pushes(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, FEW, clones=FEW_CLONES)
    put_between(fleet, faults=30)
    told = fleet.race()
    assert sum(one["away"] for one in told) > 0, "nothing was cut off"
    take_away(fleet)
    fleet.check()


@pytest.fixture
def beside() -> Iterator[Callable[[Callable[[], None]], Callable[[], None]]]:
    """Something that goes on beside the test until its end, or until what is returned here is called."""
    over, threads = threading.Event(), []

    def start(work: Callable[[], None]) -> Callable[[], None]:
        def go_on() -> None:
            while not over.wait(0.05):
                work()

        threads.append(threading.Thread(target=go_on))
        threads[-1].start()
        return stop

    def stop() -> None:
        over.set()
        for thread in threads:
            thread.join(30)

    yield start
    stop()


def pushes_of(parents: set[int]) -> list[int]:
    """The processes of `git push` that these started."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except (OSError, ValueError):
            continue
        if parent in parents and b"push" in words:
            found.append(int(name))
    return found


@pytest.mark.nightly
def test_pushes_that_are_killed(tmp_path: Path, beside: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
    """A push is short: on a busy machine a whole race may pass before one is seen, so there may be several."""
    fleet: Fleet | None = None
    killed: list[int] = []

    def kill_one() -> None:
        for pid in pushes_of({process.pid for process in fleet._processes} if fleet else set())[:1]:
            if len(killed) < FEW:
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                except ProcessLookupError:
                    pass

    beside(kill_one)
    for number in range(RACES_MAX):
        (tmp_path / str(number)).mkdir()
        fleet = Fleet(tmp_path / str(number), FEW, clones=FEW_CLONES)
        fleet.race()
        fleet.check()
        if killed:
            break
    assert killed


@pytest.mark.soak
def test_a_hub_that_comes_and_goes(tmp_path: Path, beside: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
    """The way there goes: a repository that is renamed under a push keeps the lock of its branch for ever."""
    here, away = tmp_path / "way", tmp_path / "no-way"
    here.symlink_to("hub.git")
    fleet = Fleet(tmp_path, FEW, clones=FEW_CLONES, remote=str(here))
    turns = iter(range(40))

    def toggle() -> None:
        if fleet.racing and next(turns, None) is not None:
            os.rename(*((here, away) if here.is_symlink() else (away, here)))

    stop = beside(toggle)
    told = fleet.race()
    stop()
    if away.is_symlink():
        os.rename(away, here)
    assert sum(one["away"] for one in told) > 0, "it was never away"
    fleet.check()
