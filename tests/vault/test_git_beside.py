"""Beside a program that commits, pulls and pushes at any moment, as Obsidian Git does: nothing of either is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from dibs.errors import StoreUnavailable
from dibs.store.vault.disk import Raced
from dibs.testing.sizes import rounds
from tests.vault.clones import files, git, make_clone, make_hub, on_hub, opened, put

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.store.vault.git.sync import Sync

ITEMS = [f"t{number}" for number in range(rounds(8, 12))]
TRIES_MAX = 200
PATIENCE_SECONDS = 600
ROUNDS_MAX = 3000

#: What Obsidian Git runs at each interval; here every moment, until it is told to stop. A person writes in between, and
#: gives up every merge that does not go by itself.
OBSIDIAN = """
import os, random, subprocess, sys, time
clone, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
def git(*words):
    return subprocess.run(["git", "-C", clone, *words], capture_output=True, timeout=60).returncode
for number in range(rounds):
    with open(os.path.join(clone, f"note-{name}.md"), "a") as note:
        note.write(f"{name} {number}\\n")
    git("add", "-A")
    git("commit", "--quiet", "-m", f"vault backup {number}")
    git("pull", "--quiet", "--no-rebase", "--no-edit")
    if os.path.exists(os.path.join(clone, ".git", "MERGE_HEAD")):
        git("merge", "--abort")
    git("push", "--quiet")
    print(number, flush=True)
    time.sleep(random.uniform(0, 0.5))
    if os.path.exists(os.path.join(clone, ".dibs", "stop")):
        break
git("merge", "--abort")
"""


class Obsidian:
    def __init__(self, clone: Path, name: str) -> None:
        self._clone = clone
        self._process = subprocess.Popen(
            [sys.executable, "-c", OBSIDIAN, str(clone), name, str(ROUNDS_MAX)], stdout=subprocess.PIPE, text=True
        )

    def stop(self) -> int:
        """How many rounds it went."""
        (self._clone / ".dibs" / "stop").touch()
        told, _ = self._process.communicate(timeout=120)
        assert self._process.returncode == 0
        return len(told.splitlines())


def written(ready: Path, mine: Path) -> None:
    """A pull may bring the claim before we do; in the middle of that, the file is in neither place."""
    for _ in range(TRIES_MAX):
        try:
            ready.rename(mine)
            return
        except FileNotFoundError:
            if mine.exists():
                return
            time.sleep(0.01)
    raise AssertionError(f"{ready} is gone")


def claimed(clone: Path, sync: Sync, item: str, agent: str) -> bool:
    """A claim as a store makes it: confirmed first, and then by a move."""
    ready, mine = clone / "Needs_Action" / f"{item}.md", clone / "In_Progress" / agent / f"{item}.md"
    mine.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES_MAX):
        try:
            sync.prepare()
        except StoreUnavailable:
            continue
        if not ready.exists():
            return False
        plan = {f"Needs_Action/{item}.md": None, f"In_Progress/{agent}/{item}.md": ready.read_bytes()}
        try:
            sync.confirm(plan)
        except (Raced, StoreUnavailable):
            continue
        written(ready, mine)
        sync.finish()
        return True
    raise AssertionError(f"{item} was never decided")


@pytest.mark.nightly
def test_claims_are_confirmed_once_beside_two_who_commit_and_push(tmp_path: Path) -> None:
    make_hub(tmp_path)
    first = make_clone(tmp_path, "a")
    for item in ITEMS:
        put(first, f"Needs_Action/{item}.md", f"# {item}\n")
    opened(first).sync()
    clones = {"a": first, "b": make_clone(tmp_path, "b")}
    syncs = {name: opened(clone) for name, clone in clones.items()}
    won: dict[str, list[str]] = {name: [] for name in clones}

    def work(name: str, items: list[str]) -> None:
        for item in items:
            if claimed(clones[name], syncs[name], item, name):
                won[name].append(item)

    beside = [Obsidian(clone, name) for name, clone in clones.items()]
    half = len(ITEMS) // 2
    plans = {"a": ITEMS[:half] + ITEMS[half:], "b": ITEMS[half:] + ITEMS[:half]}
    threads = [threading.Thread(target=work, args=plan) for plan in plans.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    rounds = {name: one.stop() for name, one in zip(clones, beside, strict=True)}
    assert sorted(won["a"] + won["b"]) == sorted(ITEMS)
    for clone in clones.values():
        (clone / ".dibs" / "stop").unlink()
    for name in ("a", "b", "a"):
        syncs[name].sync()
    there = on_hub(tmp_path)
    for name, items in won.items():
        assert {f"In_Progress/{name}/{item}.md" for item in items} <= there.keys()
        lines = [f"{name} {number}" for number in range(rounds[name])]
        assert there[f"note-{name}.md"].splitlines() == lines
    tasks = [path for path in there if path.startswith(("Needs_Action/", "In_Progress/"))]
    assert len(tasks) == len(ITEMS)
    assert files(clones["a"]) == files(clones["b"]) == there
    for clone in clones.values():
        assert git(clone, "status", "--porcelain") == ""
        git(clone, "fsck")


def test_a_claim_that_the_other_program_pushed_is_not_confirmed_by_that(tmp_path: Path) -> None:
    make_hub(tmp_path)
    clone = make_clone(tmp_path, "a")
    put(clone, "Needs_Action/x.md", "# X\n")
    sync = opened(clone)
    sync.sync()
    (clone / "In_Progress" / "a").mkdir(parents=True)
    (clone / "Needs_Action/x.md").rename(clone / "In_Progress/a/x.md")
    git(clone, "add", "-A")
    git(clone, "commit", "--quiet", "-m", "vault backup")
    git(clone, "push", "--quiet")
    with pytest.raises(Raced):
        sync.confirm()
    (clone / "In_Progress/a/x.md").rename(clone / "Needs_Action/x.md")
    sync.sync()
    assert on_hub(tmp_path).keys() == {"Needs_Action/x.md"}


def test_what_a_pull_brought_behind_our_back_is_seen_before_a_claim_is_confirmed(tmp_path: Path) -> None:
    """The pull makes our commit a fast-forward of one that we have never looked at."""
    make_hub(tmp_path)
    clone = make_clone(tmp_path, "a")
    put(clone, "Needs_Action/x.md", "# X\n")
    sync = opened(clone)
    sync.sync()
    other = make_clone(tmp_path, "b")
    theirs = opened(other)
    (other / "In_Progress" / "b").mkdir(parents=True)
    (other / "Needs_Action/x.md").rename(other / "In_Progress/b/x.md")
    theirs.sync()
    # In the middle of it the file is moved here, too: the pull finds it gone already.
    git(clone, "pull", "--quiet", "--no-rebase", "--no-edit")
    (clone / "In_Progress" / "a").mkdir(parents=True)
    put(clone, "In_Progress/a/x.md", "# X\n")
    with pytest.raises(Raced):
        sync.confirm()
    assert on_hub(tmp_path).keys() == {"In_Progress/b/x.md"}
