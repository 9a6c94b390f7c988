"""How git is started: what a repository and the environment can make it do, and what its failures say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dibs.system import git
from dibs.system.git import Git, GitFailed, GitNotStarted

MODES = {"": {}, "in a hook": {"in_hook": True}, "as the user": {"as_user": True}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository that leads git to programs of its own, with a commit that has a replacement."""
    folder = tmp_path / "clone"
    words = ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "-m"]
    for command in (["init", "--quiet", "."], [*words, "one"], [*words, "two"], ["replace", "HEAD", "HEAD~1"]):
        folder.mkdir(exist_ok=True)
        subprocess.run(["git", *command], cwd=folder, check=True)
    for program in ("monitor", "post-checkout"):
        path = tmp_path / program
        path.write_text(f'#!/bin/sh\ntouch "{tmp_path}/{program}-ran"\n')
        path.chmod(0o755)
    for name, value in {"core.fsmonitor": f"{tmp_path}/monitor", "core.hooksPath": f"{tmp_path}"}.items():
        subprocess.run(["git", "config", name, value], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("mode", MODES)
def test_only_git_as_the_user_runs_hooks_and_sees_replacements(folder: Path, mode: str) -> None:
    here = Git(str(folder), **MODES[mode])
    here.run("checkout", "--quiet", "-b", "topic")
    here.run("status")
    assert not (folder.parent / "monitor-ran").exists()
    assert (folder.parent / "post-checkout-ran").exists() is (mode == "as the user")
    assert here.text("log", "-1", "--format=%s") == ("one" if mode == "as the user" else "two")


@pytest.mark.parametrize("mode", MODES)
def test_only_a_hook_inherits_the_repository(folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", "other"], cwd=folder.parent, check=True)
    other = os.path.realpath(folder.parent / "other")
    for name, value in {"GIT_DIR": other, "GIT_EXTERNAL_DIFF": "/bin/false", "GIT_TRACE": str(folder / "log")}.items():
        monkeypatch.setenv(name, value)
    found = Git(str(folder), **MODES[mode]).text("rev-parse", "--absolute-git-dir")
    assert found == (other if mode == "in a hook" else os.path.realpath(folder / ".git"))
    assert not (folder / "log").exists()


@pytest.mark.parametrize("mode", MODES)
def test_a_folder_above_is_searched_only_for_a_user(folder: Path, mode: str) -> None:
    (folder / "inner").mkdir()
    here = Git(str(folder / "inner"), **MODES[mode])
    if mode:
        assert here.text("rev-parse", "--show-prefix") == "inner/"
    else:
        with pytest.raises(GitFailed, match="git rev-parse: not a git repository"):
            here.run("rev-parse", "--show-prefix")


@pytest.mark.parametrize("mode", MODES)
def test_what_a_failure_says(folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Git(str(folder), **MODES[mode])
    with pytest.raises(GitFailed) as failed:
        here.run("cat-file", "-e", "missing")
    assert (failed.value.code, str(failed.value)) == (128, "git cat-file: Not a valid object name missing")
    with pytest.raises(GitFailed, match=r"git -c: no answer within 0\.2s") as failed:
        here.run("-c", "alias.wait=!exec sleep 60", "wait", seconds=0.2)
    assert failed.value.code is None
    monkeypatch.setattr(git, "OUTPUT_MAX", 20)
    with pytest.raises(GitFailed, match="too much output"):
        here.run("cat-file", "-p", "HEAD")


@pytest.mark.parametrize("mode", MODES)
def test_git_that_cannot_be_started(folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GitNotStarted, match="git cannot be started: No such file or directory"):
        Git(str(folder / "nowhere"), **MODES[mode]).run("status")
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(GitNotStarted, match="git is not installed, or not in the PATH"):
        Git(str(folder), **MODES[mode]).run("status")


def test_a_process_that_a_hook_leaves_in_the_background_delays_nothing(folder: Path) -> None:
    Git(str(folder), as_user=True).run("-c", "alias.leave=!sleep 3 & :", "leave", seconds=2)
