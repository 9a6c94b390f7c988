"""Many workers with `--worktree` on one repository, and random kills: every item's work is on its branch, whole."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dibs.testing import sizes
from tests.kit.waiting import until
from tests.worktrees.conftest import Project

Keep = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]

SECONDS_MAX = 300
#: Works in small steps and writes each into a journal outside of the repository, once it is done. Descriptor 9 is a
#: lock that says whether another process works on the same item.
STEPS = """
exec 9>"$JOURNAL.$DIBS_ITEM"
flock -n 9 || echo "overlap $DIBS_ITEM" >>"$JOURNAL"
note() { echo "$1 $DIBS_ITEM $DIBS_CLAIM_TOKEN $2" >>"$JOURNAL"; }
note begun $PPID
echo "$DIBS_CLAIM_TOKEN" >>scratch.txt && note scratch
# The first run of the first item goes on until its worker is killed.
[ "$DIBS_ITEM $DIBS_CLAIM_TOKEN" != "item-0 1" ] || exec sleep 600
sleep 0.05
commit() { git commit -q -m "$DIBS_ITEM" && note commit "$(git rev-parse HEAD)"; }
echo "$DIBS_CLAIM_TOKEN" >>work.txt && git add work.txt && commit
sleep 0.05
git add . && commit
git push -q origin HEAD
"""


@pytest.mark.parametrize(("workers", "items", "kills"), [(3, 8, 2), pytest.param(8, 40, 24, marks=pytest.mark.soak)])
def test_killed_workers_lose_no_work_and_mix_no_branches(
    project: Project, ended: Keep, tmp_path: Path, workers: int, items: int, kills: int
) -> None:
    seed = sizes.seed()
    print(f"DIBS_SEED={seed}")
    chance = random.Random(seed)
    project.add_remote()
    names = [f"item-{number}" for number in range(items)]
    project.add(*names)
    (project.folder / "dibs.toml").write_text("[board]\nmax_strikes = 1000\n")
    journal = tmp_path / "journal"
    journal.touch()
    project.environment["JOURNAL"] = str(journal)
    limit = workers + kills  # a kill after the end of a run leaves its worktree

    def start() -> subprocess.Popen[str]:
        words = ("work", "--worktree", "--worktrees-max", str(limit), "--interval", "200ms", "--", "sh", "-c", STEPS)
        return ended(project.start(*words))

    def lines(word: str) -> list[list[str]]:
        return [line.split()[1:] for line in journal.read_text().splitlines() if line.startswith(f"{word} ")]

    def are_begun(share: float) -> bool:
        return len(lines("begun")) > share * items

    def is_all_done() -> bool:
        assert len(list(project.trees.iterdir()) if project.trees.exists() else []) <= limit
        if {item for item, *_ in lines("commit")} != set(names):
            return False
        statuses = {one["status"] for one in project.json("list", "--all")["items"]}
        assert statuses <= {"ready", "in_progress", "done"}
        return statuses == {"done"}

    fleet = {worker.pid: worker for worker in (start() for _ in range(workers))}
    for number in range(kills):
        # Spread over the whole run, each at any moment of an item's work.
        until(partial(are_begun, number / kills), seconds=SECONDS_MAX)
        (stuck,) = until(lambda: [pid for item, _, pid in lines("begun") if item == "item-0"][:1], seconds=SECONDS_MAX)
        victim = int(stuck) if number == 0 else chance.choice(list(fleet))
        fleet[victim].kill()
        fleet.pop(victim).wait()
        worker = start()
        fleet[worker.pid] = worker
    until(is_all_done, seconds=SECONDS_MAX)
    for worker in fleet.values():
        worker.terminate()
    for worker in fleet.values():
        worker.communicate(timeout=SECONDS_MAX)

    assert lines("overlap") == []
    for name in names:
        log = project.git("log", "--format=%H %s", f"main..dibs/{name}")
        on_branch = dict(line.split() for line in log.split("\n"))
        assert set(on_branch.values()) == {name}, "no commit of another item"
        assert {commit for item, _, commit in lines("commit") if item == name} <= on_branch.keys()
        written = [token for item, token in lines("scratch") if item == name]
        kept = [token for token in project.git("show", f"dibs/{name}:scratch.txt").split() if token in written]
        assert kept == written, "nothing uncommitted was lost"
    assert len(lines("begun")) > items, "a kill has met an item at work"
    assert project.json("worktree", "clean")["kept"] == []
    assert list(project.trees.iterdir()) == []
    assert len(project.git("worktree", "list").splitlines()) == 1
