"""`--worktree`: each item has a branch and a worktree of its own, and nothing that could be lost is removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.open import open_store
from dibs.store.sql.transaction import NOTES_MAX
from tests.kit.waiting import until
from tests.worktrees.conftest import Project

Keep = Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
Left = Callable[[Path], list[int]]

#: Long enough for a mistake to show. Nothing tells that a process waits.
NOTHING_SECONDS = 0.4
COMMIT = 'echo "$DIBS_ITEM" >>work.txt; git add .; git commit -q -m "$DIBS_ITEM"'


def test_a_command_works_on_a_branch_and_in_a_worktree_of_its_item(project: Project) -> None:
    project.add("x")
    script = f'{COMMIT}; echo "$PWD|$DIBS_WORKTREE|$DIBS_BRANCH|$DIBS_BASE"'
    done = project.exec("x", script)
    assert done.returncode == 0, done.stderr
    path = str(project.trees / "x")
    assert f"x | {path}|{path}|dibs/x|main\n" in done.stdout
    assert project.subjects("dibs/x") == ["x"]
    assert project.git("status", "--porcelain") == "", "the work tree of the caller is as it was"
    assert project.last_run("x")["links"] == {
        "branch": "dibs/x",
        "base": "main",
        "worktree": path,
        "commit": project.git("rev-parse", "dibs/x"),
    }


def test_a_worktree_stays_until_its_branch_is_merged_or_pushed(project: Project) -> None:
    project.add_remote()
    project.add("nothing", "local", "pushed", "kept", "merged")
    project.exec("nothing", "true")
    project.exec("local", COMMIT)
    project.exec("pushed", f"{COMMIT}; git push -q origin HEAD")
    project.exec("kept", "true", "--keep")
    project.exec("merged", f"{COMMIT}; git -C '{project.folder}' merge -q dibs/merged")
    listed = project.listed()
    assert set(listed) == {"local", "kept"}
    assert {os.path.basename(tree) for tree in project.trees.iterdir()} == {"local", "kept"}
    assert not listed["local"]["published"]
    assert project.subjects("dibs/local") == ["local"]


def test_a_failed_run_leaves_its_worktree_to_the_next_run(project: Project) -> None:
    project.add("x")
    project.exec("x", f"{COMMIT}; echo half >>a.txt; echo scratch >new.txt; echo 'I broke here'; exit 3")
    assert project.listed()["x"]["uncommitted"] == 2
    project.ok("retry", "x")
    done = project.exec("x", 'cat "$DIBS_PREVIOUS_FILE"; cat new.txt; git log -1 --format=%s', "--json")
    said = [json.loads(line)["text"] for line in done.stdout.splitlines() if json.loads(line)["event"] == "output"]
    assert said[-2:] == ["scratch", "x"]
    previous = json.loads(said[0])
    told = previous["worktree"]
    assert (told["branch"], told["base"], told["commits"], told["uncommitted"]) == ("dibs/x", "main", 1, 2)
    assert "a.txt" in told["diffstat"]
    assert "work.txt" in told["diffstat"]
    assert "I broke here" in told["output"]
    assert previous["notes"][-1]["meta"]["worktree"] == told, "who claims it elsewhere is told the same"


def test_the_next_holder_by_any_way_is_told_branch_changes_and_output(project: Project) -> None:
    project.add("x")
    project.exec("x", f"{COMMIT}; echo 'not now'; exit 75")
    session = project.ok("session", "start").strip()
    previous = project.json("claim", "x", "--session", session)["previous"]
    assert previous["run"]["outcome"] == "released"
    assert previous["run"]["links"]["branch"] == "dibs/x"
    told = previous["notes"][-1]["meta"]["worktree"]
    assert (told["branch"], told["commits"], told["output"]) == ("dibs/x", 1, "not now")
    assert told["diffstat"] == "work.txt | 1 +\n1 file changed, 1 insertion(+)"


def test_what_is_handed_over_is_bounded_and_hostile_text_is_harmless(project: Project) -> None:
    project.add("x")
    files = "i=0; while [ $i -lt 80 ]; do echo >file-$i.txt; i=$((i+1)); done"
    files += "; echo >\"$(printf 'e\\033[2Jvil\\nname')\""
    noise = "i=0; while [ $i -lt 3000 ]; do echo line-$i; i=$((i+1)); done; printf '\\033]0;x\\007\\377\\n'"
    project.exec("x", f"{files}; {COMMIT}; {noise}; exit 1")
    project.ok("retry", "x")
    previous = project.json("claim", "x", "--session", project.ok("session", "start").strip())["previous"]
    note = previous["notes"][-1]
    told = note["meta"]["worktree"]
    assert len(told["diffstat"]) <= 3100
    assert "82 files changed" in told["diffstat"]
    assert len(told["output"]) <= 4000
    assert "line-2999" in told["output"]
    assert "\033" not in told["diffstat"]
    assert "\033" not in project.ok("show", "x")
    assert (project.records / "x.output").stat().st_size <= 8000


def test_the_workers_key_is_struck_out_of_what_is_handed_over(project: Project) -> None:
    project.add("x")
    project.environment["DIBS_KEY"] = "dibs_k1_a-long-random-secret"
    project.exec("x", "env | grep DIBS_; exit 1")
    for kept in (project.ok("export"), (project.records / "x.output").read_text()):
        assert "DIBS_KEY=***" in kept
        assert project.environment["DIBS_KEY"] not in kept


def test_an_item_that_a_killed_worker_held_is_continued_where_it_was(project: Project, ended: Keep, left: Left) -> None:
    """The command ignores SIGTERM: its worktree is not entered before it is gone. It has left more notes than the next
    holder is given."""
    project.add("x")
    pids = project.folder.parent / "pids"
    script = f"{COMMIT}; echo draft >draft.txt; echo 'last words'; trap '' TERM; echo $$ >'{pids}'; " + (
        "while :; do sleep 0.05; date +%s%N >beat.txt; done"
    )
    worker = ended(project.start("work", "--worktree", "--", "sh", "-c", script))
    (command,) = left(pids)
    with Board(open_store(str(project.folder / ".git" / "dibs" / "board.db"), DEFAULTS), DEFAULTS) as board:
        (run,) = board.get("x").runs
        for number in range(NOTES_MAX + 1):
            board.progress("x", f"note {number}", session=run.session)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    check = f"grep -q '^State:.[^ZX]' /proc/{command}/status && echo 'still alive'"
    handed = project.folder.parent / "previous.json"
    script = f'{check}; cat draft.txt; cp "$DIBS_PREVIOUS_FILE" "{handed}"; rm beat.txt; {COMMIT}'
    done = project.exec("x", script, "--wait", "20s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "still alive" not in done.stdout
    assert "x | draft\n" in done.stdout
    previous = json.loads(handed.read_text())
    links = {"branch": "dibs/x", "base": "main", "worktree": str(project.trees / "x")}
    assert (previous["run"]["outcome"], previous["run"]["links"]) == ("owner_died", links)
    assert [note["note"] for note in previous["notes"]] == [f"note {number}" for number in range(1, NOTES_MAX + 1)]
    told = previous["worktree"]
    assert (told["branch"], told["commits"], told["output"]) == ("dibs/x", 1, "last words")
    assert "work.txt | 1 +" in told["diffstat"]
    assert project.subjects("dibs/x") == ["x", "x"]


def test_a_worktree_that_a_live_worker_uses_is_not_entered(project: Project, ended: Keep, left: Left) -> None:
    """The claim is taken away from a worker that is stopped; its worktree is not."""
    project.add("x", "y")
    pids = project.folder.parent / "pids"
    worker = ended(project.start("work", "--worktree", "--", "sh", "-c", f"echo $$ >'{pids}'; exec sleep 600"))
    left(pids)
    os.kill(worker.pid, signal.SIGSTOP)
    project.ok("force-release", "x", "--reason", "gone")
    done = project.exec("x", COMMIT)
    assert done.returncode == 75
    assert f"in use by process {worker.pid} (coder)" in done.stdout
    assert project.json("show", "x")["item"]["status"] == "parked", "a worker takes other items first"
    kept = project("worktree", "clean", "x")
    assert kept.returncode == 1
    assert "in use" in kept.stdout
    os.kill(worker.pid, signal.SIGCONT)


def test_a_branch_that_is_checked_out_elsewhere_is_left_there(project: Project) -> None:
    project.add("x")
    project.git("worktree", "add", "-q", "-b", "dibs/x", "../mine")
    done = project.exec("x", COMMIT)
    assert done.returncode == 75
    assert "branch dibs/x is checked out in" in done.stdout
    assert project.subjects("dibs/x") == []
    assert project.json("show", "x")["item"]["status"] == "parked"


def test_a_worktree_that_was_deleted_is_made_again_on_its_branch(project: Project) -> None:
    project.add("x")
    project.exec("x", f"{COMMIT}; exit 1")
    (project.trees / "x").rename(project.folder.parent / "moved away")
    project.ok("retry", "x")
    done = project.exec("x", f"cat work.txt; {COMMIT}")
    assert "x | x\n" in done.stdout
    assert project.subjects("dibs/x") == ["x", "x"]


def test_a_branch_that_another_machine_pushed_is_continued(project: Project) -> None:
    project.add_remote()
    project.add("x")
    project.exec("x", f"{COMMIT}; git push -q origin HEAD; exit 1")
    project.ok("worktree", "clean")
    project.git("branch", "-D", "dibs/x")
    project.ok("retry", "x")
    done = project.exec("x", f'{COMMIT}; cat "$DIBS_PREVIOUS_FILE"')
    assert project.subjects("dibs/x") == ["x", "x"]
    assert '"commits": 1' in done.stdout


def test_clean_removes_only_what_cannot_be_lost(project: Project) -> None:
    work = {
        "clean": COMMIT,
        "ignored": f"{COMMIT}; echo noise >build.log",
        "modified": f"{COMMIT}; echo more >>a.txt",
        "untracked": f"{COMMIT}; echo more >new.txt",
        "hidden": f"{COMMIT}; git update-index --assume-unchanged a.txt; echo more >>a.txt",
        "detached": f"{COMMIT}; git checkout -q --detach; {COMMIT}",
        "locked": f"{COMMIT}; git worktree lock .",
    }
    project.git("config", "status.showUntrackedFiles", "no")
    project.add(*work, "held", "kept")
    for item, script in work.items():
        project.exec(item, f"{script}; exit 1")
    project.exec("kept", "exit 1", "--keep")
    project.exec("held", "exit 75")
    project.ok("claim", "held", "--session", project.ok("session", "start").strip())
    project.git("worktree", "add", "-q", "-b", "mine", "../mine")
    answer = project.json("worktree", "clean")
    assert {one["item"] for one in answer["removed"]} == {"clean", "ignored"}
    kept = {one["item"]: one["why"] for one in answer["kept"]}
    assert set(kept) == {"modified", "untracked", "hidden", "detached", "locked", "held", "kept"}
    assert kept["untracked"] == "it has 1 uncommitted or untracked file"
    assert {tree.name for tree in project.trees.iterdir()} == set(kept)
    assert (project.folder.parent / "mine").exists(), "dibs did not make it"
    assert project.subjects("dibs/clean") == ["clean"], "its branch stays"
    assert project("worktree", "clean", "modified").returncode == 1
    assert project("worktree", "clean", "kept").returncode == 0
    code, error = project.refused("worktree", "clean", "nobody")
    assert (code, error["code"]) == (1, "INVALID")


def test_the_number_of_worktrees_is_bounded(project: Project) -> None:
    """A worker that may make no worktree releases its item. Worktrees of finished work make room."""
    project.add("a", "b", "c")
    limit = ("--worktrees-max", "2")
    project.exec("a", f"{COMMIT}", *limit)
    project.exec("b", f"{COMMIT}; exit 1", *limit)
    done = project.exec("c", COMMIT, *limit)
    assert done.returncode == 75
    assert "this repository has 2 worktrees of dibs, and --worktrees-max is 2" in done.stderr
    run = project.last_run("c")
    assert run["outcome"] == "released"
    assert "--worktrees-max is 2" in run["reason"]
    project.ok("retry", "b")
    assert project.exec("b", "exit 1", *limit).returncode == 1, "one that is there may be used"
    project.git("merge", "-q", "dibs/a")
    assert project.exec("c", COMMIT, *limit).returncode == 0
    assert set(project.listed()) == {"b", "c"}


def test_submodules_are_checked_out_and_their_worktree_is_kept(project: Project) -> None:
    project.environment |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "protocol.file.allow",
        "GIT_CONFIG_VALUE_0": "always",
    }
    project.git("init", "-q", "-b", "main", "../library")
    library = project.folder.parent / "library"
    (library / "lib.txt").write_text("from the library\n")
    project.git("add", ".", folder=library)
    project.git("commit", "-q", "-m", "lib", folder=library)
    project.git("submodule", "--quiet", "add", str(library), "lib")
    project.git("commit", "-q", "-m", "with a library")
    project.add("x")
    assert "x | from the library\n" in project.exec("x", "cat lib/lib.txt").stdout
    (kept,) = project.json("worktree", "clean")["kept"]
    assert "submodules" in kept["why"]


def test_every_id_has_a_branch(project: Project) -> None:
    ids = ["a..b", "a.lock", "a.", "a...lock", "v1.2"]
    project.add(*ids)
    project.ok("work", "--worktree", "--once", "--max", "3", "--", "sh", "-c", COMMIT)
    branches = {run["item"]: run["links"]["branch"] for run in project.json("runs")["runs"]}
    assert len(set(branches.values())) == len(ids)
    for item in ids:
        assert project.subjects(branches[item]) == [item]


def test_a_command_runs_in_the_folder_that_stands_for_the_callers(project: Project) -> None:
    (project.folder / "part" / "inner").mkdir(parents=True)
    (project.folder / "part" / "inner" / "b.txt").write_text("b\n")
    project.git("add", ".")
    project.git("commit", "-q", "-m", "part")
    project.add("x")
    words = ("exec", "x", "--worktree", "--worktrees-dir", "../else where", "--", "pwd")
    said = project.ok(*words, folder=project.folder / "part" / "inner")
    assert f"x | {project.folder}/part/else where/x/part/inner\n" in said


def test_a_git_hook_that_starts_dibs_leads_to_the_right_repository(project: Project) -> None:
    project.add("x")
    project.git("init", "-q", "../other")
    environment = {"GIT_DIR": str(project.folder.parent / "other" / ".git"), "GIT_INDEX_FILE": "/nowhere"}
    words = ("exec", "x", "--worktree", "--", "sh", "-c", COMMIT)
    project.ok(*words, environment=environment)
    assert project.subjects("dibs/x") == ["x"]


def test_what_cannot_work_is_refused_before_anything_is_claimed(project: Project, tmp_path: Path) -> None:
    project.add("x")
    assert "there is no commit 'nowhere'" in project.refused_run("--worktree", "--base", "nowhere")
    assert "there is no commit '--all'" in project.refused_run("--worktree", "--base", "--all")
    assert "worktrees-max must be at least 1" in project.refused_run("--worktree", "--worktrees-max", "0")
    assert "--base needs --worktree" in project.refused_run("--base", "main")
    assert "--keep needs --worktree" in project.refused_run("--keep")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store = str(project.folder / ".git" / "dibs" / "board.db")
    assert "worktrees need a git repository" in project.refused_run("--worktree", "--store", store, folder=elsewhere)
    project.git("branch", "dibs")
    assert "git branch -m dibs NAME" in project.refused_run("--worktree")


def test_a_worker_that_is_stopped_hands_its_work_over(project: Project, ended: Keep, left: Left) -> None:
    project.add("x")
    pids = project.folder.parent / "pids"
    script = f"{COMMIT}; echo 'so far'; echo $$ >'{pids}'; exec sleep 600"
    worker = ended(project.start("work", "--worktree", "--drain", "0s", "--", "sh", "-c", script))
    left(pids)
    worker.terminate()
    worker.wait(30)
    previous = project.json("claim", "x", "--session", project.ok("session", "start").strip())["previous"]
    told = previous["notes"][-1]["meta"]["worktree"]
    assert (previous["run"]["outcome"], told["commits"], told["output"]) == ("released", 1, "so far")
    until(lambda: not project.listed()["x"]["in_use"])


@pytest.fixture
def slow_checkout(project: Project, tmp_path: Path) -> Path:
    """Git makes worktrees so slowly that the test says when it is done: by the file `go`. The file `journal` has the
    lines of git and of commands."""
    hook = project.folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    wait = f"until [ -e '{tmp_path}/go' ]; do sleep 0.02; done"
    hook.write_text(f"#!/bin/sh\necho begun >>'{tmp_path}/journal'\n{wait}\necho made >>'{tmp_path}/journal'\n")
    hook.chmod(0o700)
    project.add("x")
    return tmp_path


def test_a_worktree_that_git_still_makes_for_a_killed_worker_is_waited_for(
    project: Project, ended: Keep, slow_checkout: Path
) -> None:
    journal = slow_checkout / "journal"
    words = ("work", "--worktree", "--once", "--", "sh", "-c", f"echo command >>'{journal}'; {COMMIT}")
    worker = ended(project.start(*words))
    until(journal.exists)
    worker.kill()
    worker.wait()
    second = ended(project.start(*words))
    until(lambda: project.json("who")["holdings"])
    time.sleep(NOTHING_SECONDS)
    (slow_checkout / "go").touch()
    second.wait(30)
    assert journal.read_text().split() == ["begun", "made", "command"]
    assert project.subjects("dibs/x") == ["x"]


def test_no_command_begins_for_a_worker_that_was_stopped_meanwhile(
    project: Project, ended: Keep, slow_checkout: Path
) -> None:
    journal = slow_checkout / "journal"
    words = ("work", "--worktree", "--drain", "0s", "--", "sh", "-c", f"echo command >>'{journal}'")
    worker = ended(project.start(*words))
    until(journal.exists)
    worker.terminate()
    until(lambda: project.json("show", "x")["item"]["status"] == "ready")
    (slow_checkout / "go").touch()
    worker.wait(30)
    assert journal.read_text().split() == ["begun", "made"]
