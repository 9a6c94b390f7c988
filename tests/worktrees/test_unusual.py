"""`--worktree` where something is unusual: folders that are missing or moved, killed checkouts, hooks, other machines.

What only one item meets parks that item, and the queue goes on. What could be lost stays.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worktrees.conftest import Project
from tests.worktrees.test_worktrees import COMMIT, Left


def parked(project: Project, item: str, script: str = "pwd") -> str:
    """Why a run of the item is parked before its command begins."""
    done = project.exec(item, script)
    assert done.returncode == 75, done
    assert project.json("show", item)["item"]["status"] == "parked", done
    reason: str = project.last_run(item)["reason"]
    return reason


def hook(project: Project, script: str) -> None:
    path = project.folder / ".git" / "hooks" / "post-checkout"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


@pytest.mark.parametrize(
    ("work", "moved", "why"),
    [
        ("echo draft >d.txt", ".", "so is the folder around it"),
        ("echo staged >s.txt; git add s.txt", "x", "it had staged changes"),
        (f"git checkout -q --detach; {COMMIT}", "x", "its HEAD was not on dibs/x"),
        (f"{COMMIT}; git worktree lock .", "x", "it is locked"),
    ],
)
def test_a_worktree_that_is_missing_now_is_not_forgotten(project: Project, work: str, moved: str, why: str) -> None:
    project.add("x")
    project.exec("x", f"{work}; exit 75")
    before = project.git("status", "--porcelain", "--branch", folder=project.trees / "x")
    away = project.folder.parent / "unmounted"
    (project.trees / moved).rename(away)
    (kept,) = project.json("worktree", "clean")["kept"]
    assert why in kept["why"]
    reason = parked(project, "x")
    assert why in reason
    assert "git worktree repair" in reason
    away.rename(project.trees / moved)
    assert project.git("status", "--porcelain", "--branch", folder=project.trees / "x") == before


@pytest.mark.parametrize("names", [("my project",), ("my project", "my project.worktrees")])
def test_no_command_runs_in_a_worktree_that_is_cut_off_from_its_repository(
    project: Project, names: tuple[str, ...]
) -> None:
    project.add("x")
    project.exec("x", f"{COMMIT}; echo draft >d.txt; exit 75")
    place = project.folder.parent / "new place"
    place.mkdir()
    for name in names:
        (project.folder.parent / name).rename(place / name)
    tree = (place if len(names) == 2 else project.folder.parent) / "my project.worktrees" / "x"
    project.folder = place / "my project"
    assert "worktree repair" in parked(project, "x", "touch ran")
    assert not (tree / "ran").exists()
    project.git("worktree", "repair", str(tree))
    project.ok("unpark", "x")
    assert f"x | {tree}\nx | draft\n" in project.exec("x", "pwd; cat d.txt; rm d.txt").stdout
    assert project.subjects("dibs/x") == ["x"]


@pytest.mark.parametrize(
    ("moved", "where"), [("git switch -q -c other", "on other"), ("git checkout -q --detach", "detached")]
)
def test_no_command_runs_where_its_commits_would_miss_the_branch(project: Project, moved: str, where: str) -> None:
    project.add("x")
    project.exec("x", f"{COMMIT}; {moved}; git commit -q --allow-empty -m elsewhere; exit 75")
    told = project.json("show", "x")["notes"][-1]["meta"]["worktree"]
    why = f"its HEAD is not on the branch dibs/x, but {where}"
    assert (told["commits"], told["commit"], told["problem"]) == (1, project.git("rev-parse", "dibs/x"), why)
    assert project.listed()["x"]["problem"] == why
    assert why in project.ok("worktree", "list", environment={"COLUMNS": "300"})
    assert f"{why}; after a look" in parked(project, "x", "touch ran")
    assert not (project.trees / "x" / "ran").exists()
    project.git("switch", "-q", "dibs/x", folder=project.trees / "x")
    project.ok("unpark", "x")
    project.exec("x", COMMIT)
    assert project.subjects("dibs/x") == ["x", "x"]


def test_a_rebase_that_the_last_run_began_is_continued(project: Project) -> None:
    project.add("x")
    project.exec("x", f"{COMMIT}; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i main; exit 75")
    assert "detached" in project.git("worktree", "list", "--porcelain")
    project.exec("x", f"git rebase --continue; {COMMIT}")
    assert project.subjects("dibs/x") == ["x", "x"]


def test_a_worktree_that_git_moved_is_found(project: Project) -> None:
    project.add("x")
    project.exec("x", f"{COMMIT}; exit 75")
    project.git("worktree", "move", str(project.trees / "x"), "../moved")
    moved = project.folder.parent / "moved"
    assert project.listed()["x"]["path"] == str(moved)
    assert f"x | {moved}\n" in project.exec("x", "pwd; exit 75").stdout
    assert project.json("worktree", "clean")["removed"] == [{"item": "x", "path": str(moved)}]
    assert not moved.exists()


def test_a_worktree_of_a_person_at_the_same_path_is_neither_used_nor_removed(project: Project) -> None:
    project.add("x")
    project.exec("x", "exit 75")
    project.git("worktree", "remove", str(project.trees / "x"))
    project.git("worktree", "add", "-q", str(project.trees / "x"), "dibs/x")
    assert "which is not a worktree that dibs made" in parked(project, "x")
    assert not project.listed()["x"]["exists"], "what is there is not the worktree of dibs"
    answer = project.json("worktree", "clean")
    assert (answer["removed"], [one["item"] for one in answer["forgotten"]]) == ([], ["x"])
    assert (project.trees / "x").exists()


def test_a_worktree_that_a_person_made_after_a_kill_is_not_taken_over(project: Project, tmp_path: Path) -> None:
    """The worker is killed between its record and `git worktree add`."""
    project.add("x")
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    kill = 'case "$*" in *"worktree add"*) kill -9 $PPID; exit 1;; esac'
    program.write_text(f'#!/bin/sh\n{kill}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o700)
    words = (sys.executable, "-m", "dibs.cli.main", "exec", "x", "--worktree", "--", "true")
    path = f"{program.parent}:{project.environment['PATH']}"
    killed = subprocess.run(words, cwd=project.folder, env=project.environment | {"PATH": path}, check=False)
    assert killed.returncode == -signal.SIGKILL
    tree = project.trees / "x"
    project.git("worktree", "add", "-q", "-b", "mine", str(tree))
    (tree / "precious.log").touch()
    assert "is in the way" in parked(project, "x", "touch ran")
    project.git("switch", "-q", "dibs/x", folder=tree)
    project("worktree", "clean", "x")
    assert [file.name for file in sorted(tree.iterdir())] == [".git", ".gitignore", "a.txt", "precious.log"]


def test_a_branch_that_another_machine_carried_on_is_fast_forwarded(project: Project, tmp_path: Path) -> None:
    project.add_remote()
    project.add("x", "y")
    for item in ("x", "y"):
        project.exec(item, f"{COMMIT}; git push -q origin HEAD; exit 75")
    project.ok("worktree", "clean")
    other = tmp_path / "other machine"
    project.git("clone", "-q", "-b", "dibs/x", str(tmp_path / "remote.git"), str(other))
    for item in ("x", "y"):
        project.git("switch", "-q", f"dibs/{item}", folder=other)
        project.git("commit", "-q", "--allow-empty", "-m", "elsewhere", folder=other)
        project.git("push", "-q", "origin", f"dibs/{item}", folder=other)
    project.git("fetch", "-q")
    project.exec("x", f"{COMMIT}; git push -q origin HEAD")
    assert project.subjects("origin/dibs/x") == ["x", "elsewhere", "x"]
    diverged = project.git("commit-tree", "-p", "dibs/y", "-m", "here", "dibs/y^{tree}")
    project.git("branch", "-f", "dibs/y", diverged)
    assert "branch dibs/y and origin/dibs/y have diverged" in parked(project, "y")
    assert project.git("rev-parse", "dibs/y") == diverged


def test_what_only_one_item_meets_parks_it_and_the_queue_goes_on(project: Project) -> None:
    project.add("branch", "hook", "submodule", "last")
    project.git("branch", "dibs/branch/topic")
    hook(project, 'case "$PWD" in */hook) exit 1;; esac')
    (project.folder / ".gitmodules").write_text(
        '[submodule "lib"]\n\tpath = lib\n\turl = http://u:SECRET@127.0.0.1:1/x\n'
    )
    project.git("add", ".")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{project.git('rev-parse', 'HEAD')},lib")
    project.git("switch", "-q", "-c", "dibs/submodule")
    project.git("commit", "-q", "-m", "with a library")
    project.git("switch", "-q", "main")
    done = project("work", "--worktree", "--once", "--", "sh", "-c", 'echo "ran $DIBS_ITEM"')
    assert done.returncode == 0, done
    assert "ran last" in done.stdout
    statuses = {one["id"]: one["status"] for one in project.json("list", "--all")["items"]}
    assert statuses == {"branch": "parked", "hook": "parked", "submodule": "parked", "last": "done"}
    assert "127.0.0.1" in project.last_run("submodule")["reason"]
    assert "SECRET" not in done.stdout + done.stderr + project.ok("export")


def test_what_every_item_would_meet_parks_none(project: Project, small_disk: Path) -> None:
    project.add("x", "y")
    (project.folder / "large").write_bytes(os.urandom(2_000_000))
    project.git("add", ".")
    project.git("commit", "-q", "-m", "large")
    done = project("work", "--worktree", "--worktrees-dir", str(small_disk), "--once", "--", "true")
    assert done.returncode == 75
    assert "no worktree could be made" in done.stderr
    assert {one["status"] for one in project.json("list", "--all")["items"]} == {"ready"}
    assert list(small_disk.iterdir()) == []


def test_a_full_disk_of_the_repository_parks_no_item(project: Project, small_disk: Path) -> None:
    """Git does not give the system's error for every write that fails."""
    project.environment["DIBS_STORE"] = str(project.folder / ".git" / "dibs" / "board.db")
    project.add("x", "y", "z")
    project.git("clone", "-q", "--template=", str(project.folder), str(small_disk / "work"))
    project.folder = small_disk / "work"
    done = project("work", "--worktree", "--once", "--", "sh", "-c", "cat /dev/zero >fill; exit 75")
    assert done.returncode == 75, done
    assert "no worktree could be made" in done.stderr
    assert {one["status"] for one in project.json("list", "--all")["items"]} == {"ready"}
    assert list(project.records.glob("*.half")) == []


def test_a_checkout_that_was_killed_with_its_worker_is_made_anew(project: Project, tmp_path: Path) -> None:
    project.add("x")
    (project.folder / ".gitattributes").write_text("a.txt filter=slow\n")
    project.git("add", ".")
    project.git("commit", "-q", "-m", "filter")
    # Once, it kills the worker, and the process group of git.
    smudge = tmp_path / "smudge"
    once = f"if mkdir '{tmp_path}/once' 2>/dev/null; then kill -9 $(cat '{tmp_path}/pid') 0; fi"
    smudge.write_text(f"#!/bin/sh\n{once}\ncat\n")
    smudge.chmod(0o700)
    project.git("config", "filter.slow.smudge", str(smudge))
    project.git("config", "filter.slow.clean", "cat")
    command = f"echo $$ >'{tmp_path}/pid'; exec \"$@\""
    words = ("exec", "x", "--worktree", "--", "sh", "-c", COMMIT)
    killed = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-m", "dibs.cli.main", *words],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert "locked initializing" in project.git("worktree", "list", "--porcelain")
    done = project.exec("x", f"cat a.txt; {COMMIT}", "--wait", "20s")
    assert done.returncode == 0, done
    assert "x | one\n" in done.stdout
    assert project.subjects("dibs/x") == ["x"]


def test_a_process_that_a_hook_leaves_in_the_background_holds_nothing_up(project: Project, left: Left) -> None:
    project.add("x")
    pids = project.folder.parent / "pids"
    hook(project, f"sleep 60 &\necho $! >'{pids}'")
    done = project.exec("x", "echo ran")
    (sleeper,) = left(pids)
    assert os.path.exists(f"/proc/{sleeper}")
    os.kill(sleeper, signal.SIGKILL)
    assert "x | ran\n" in done.stdout


def test_an_item_that_was_done_without_a_worker_makes_room(project: Project) -> None:
    project.add("a", "b", "c")
    one = ("--worktrees-max", "1")
    project.exec("a", f"{COMMIT}; git -C '{project.folder}' merge -q dibs/a; exit 75", *one)
    refused = project.exec("b", "true", *one)
    assert "this repository has 1 worktree of dibs" in refused.stderr
    session = project.ok("session", "start").strip()
    project.ok("claim", "a", "--session", session)
    project.ok("done", "a", "--session", session)
    assert project.exec("b", COMMIT, *one).returncode == 0
    assert set(project.listed()) == {"b"}


@pytest.mark.parametrize("bare", ["", "--bare"])
def test_a_repository_in_an_ignored_folder_is_not_removed(project: Project, bare: str) -> None:
    (project.folder / ".gitignore").write_text("tools/\n")
    project.git("commit", "-q", "-am", "ignore")
    project.add("x")
    own = "git update-ref refs/heads/own $(git commit-tree -m precious $(git mktree </dev/null))"
    project.exec("x", f"mkdir tools; git init -q {bare} tools/deep; cd tools/deep; {own}")
    (kept,) = project.json("worktree", "clean")["kept"]
    assert "another repository in an ignored folder" in kept["why"]
    assert project.git("log", "--format=%s", "own", folder=project.trees / "x" / "tools" / "deep") == "precious"


@pytest.mark.parametrize(
    ("begin", "why"),
    [
        ("git merge -q --no-commit --no-ff -s ours side", "a merge in it is not finished"),
        ("git cherry-pick main..side 2>/dev/null", "a cherry-pick in it is not finished"),
        ("git bisect start -q", "a bisection in it is not finished"),
    ],
)
def test_what_git_has_not_finished_is_not_removed(project: Project, begin: str, why: str) -> None:
    """The files are as in the last commit, so git itself would remove it."""
    project.git("switch", "-q", "-c", "side")
    project.git("commit", "-q", "--allow-empty", "-m", "empty, so that a cherry-pick stops there")
    project.git("commit", "-q", "--allow-empty", "-m", "more")
    project.git("switch", "-q", "main")
    project.add("x")
    assert project.exec("x", f"{begin}; git status --porcelain; true").returncode == 0
    assert project.listed()["x"]["uncommitted"] == 0
    (kept,) = project.json("worktree", "clean")["kept"]
    assert kept["why"] == why


def test_clean_removes_no_folder_in_which_it_was_called(project: Project) -> None:
    project.add("x")
    project.exec("x", "mkdir part; touch part/f; git add .; git commit -q -m part; exit 75")
    (kept,) = project.json("worktree", "clean", folder=project.trees / "x" / "part")["kept"]
    assert "dibs was called in it" in kept["why"]
    assert (project.trees / "x" / "part" / "f").exists()


def test_clean_works_without_a_board(project: Project) -> None:
    project.add("x")
    project.exec("x", "exit 75")
    (project.folder / ".git" / "dibs" / "board.db").rename(project.folder.parent / "board.db")
    assert [one["item"] for one in project.json("worktree", "clean")["removed"]] == ["x"]


def test_worktrees_are_beside_the_work_tree_wherever_git_keeps_its_files(project: Project, tmp_path: Path) -> None:
    project.add("plain", "sub", "separate")
    store = ("--store", str(project.folder / ".git" / "dibs" / "board.db"))

    def place(folder: Path, item: str) -> str:
        said = project.ok("exec", item, "--worktree", *store, "--", "pwd", folder=folder)
        return said.split(f"{item} | ")[1].split("\n")[0]

    library = tmp_path / "library"
    project.git("init", "-q", "-b", "main", str(library))
    project.git("commit", "-q", "--allow-empty", "-m", "lib", folder=library)
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "deps/lib")
    assert place(project.folder / "deps" / "lib", "sub") == f"{project.folder}.deps-lib.worktrees/sub"
    git_dir = str(tmp_path / "elsewhere.git")
    project.git("clone", "-q", "--separate-git-dir", git_dir, str(library), str(tmp_path / "shop"))
    assert place(tmp_path / "shop", "separate") == f"{tmp_path}/shop.worktrees/separate"


def test_a_newline_in_the_path_of_the_repository_is_part_of_it(project: Project, tmp_path: Path) -> None:
    project.folder = project.folder.rename(tmp_path / "two\nlines")
    project.add("x")
    project.exec("x", f"{COMMIT}; exit 75")
    assert project.listed()["x"]["path"] == f"{tmp_path}/two\nlines.worktrees/x"
    assert project.exec("x", f"{COMMIT}; git -C '{project.folder}' merge -q dibs/x").returncode == 0
    assert project.listed() == {}
    assert project.git("log", "-2", "--format=%s").split() == ["x", "x"]
