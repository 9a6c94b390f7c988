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
from dibs.doctor import examine
from dibs.store.vault.store import VaultStore
from tests.vault.clones import git, make_clone, make_hub, on_hub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

SOAK = os.environ.get("DIBS_SOAK") == "1"
CLONES = 6
ITEMS = 100 if SOAK else 30
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
            board.store.sync()  # type: ignore[attr-defined]
        for clone in self.clones.values():
            opened(clone).close()
        self._processes: list[subprocess.Popen[str]] = []

    def race(self, batch: int = 1) -> list[dict[str, Any]]:
        """Let them all go at once; what they told."""
        for agent in self.clones:
            self.start(agent, batch)
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return [self.end(process) for process in self._processes]

    def start(self, agent: str, batch: int) -> None:
        log = str(self.folder / "started.jsonl")
        words = [sys.executable, "-m", "tests.vault.claimant", str(self.clones[agent]), agent, log, str(batch)]
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
                board.store.sync()  # type: ignore[attr-defined]
                held = {(one.item.id, one.claim.agent, one.claim.token) for one in board.who() if one.claim is not None}
                assert held == {(one["item"], one["agent"], one["token"]) for one in started}
                assert [finding.what for finding in examine(board)] == []
            git(clone, "fsck")


@pytest.mark.parametrize("batch", [1, 10])
def test_each_item_is_confirmed_by_exactly_one_clone(tmp_path: Path, batch: int) -> None:
    fleet = Fleet(tmp_path, ITEMS)
    fleet.race(batch)
    fleet.check()
