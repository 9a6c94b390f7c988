"""`dibs vault sync` and `dibs vault hub`, as they are typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kit.waiting import PATIENCE_SECONDS
from tests.vault.clones import files, git, make_clone, on_hub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any


def dibs(folder: Path, *words: str, code: int = 0) -> str:
    words += ("--session", words[words.index("--agent") + 1]) if "--agent" in words else ()
    done = subprocess.run(
        [sys.executable, "-m", "dibs.cli.main", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    for name in [name for name in os.environ if name.startswith("DIBS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DIBS_AGENT", "coder")
    dibs(tmp_path, "vault", "hub", "init", "hub.git")
    here, there = make_clone(tmp_path, "here"), make_clone(tmp_path, "there")
    for clone in (here, there):
        dibs(tmp_path, "vault", "init", str(clone))
        for agent in ("coder", "other"):
            start(clone, agent)
    return here, there


def start(clone: Path, agent: str) -> None:
    """A session of this agent, by its name."""
    subprocess.run(
        [sys.executable, "-m", "dibs.cli.main", "session", "start", "--agent", agent, "--id", agent],
        cwd=clone,
        check=True,
        timeout=PATIENCE_SECONDS,
        capture_output=True,
    )


def test_a_hub_two_clones_and_a_claim(clones: tuple[Path, Path], tmp_path: Path) -> None:
    here, there = clones
    dibs(here, "add", "Fix login", "--id", "fix-login")
    assert "pushed local changes" in dibs(here, "vault", "sync")
    assert "received: fix-login" in dibs(there, "vault", "sync")
    assert "nothing to sync" in dibs(there, "vault", "sync")
    assert json.loads(dibs(here, "next", "--agent", "coder", "--json"))
    assert "In_Progress/coder/fix-login.md" in on_hub(tmp_path)
    assert "TASK_ALREADY_CLAIMED" in dibs(there, "claim", "fix-login", "--agent", "other", "--json", code=4)
    told = json.loads(dibs(here, "vault", "sync", "--json"))
    assert set(told) == {"commit", "pushed", "news", "conflicts", "findings", "expired", "repaired"}


def test_a_hub_is_made_once(tmp_path: Path) -> None:
    path = str(tmp_path / "hub.git")
    assert json.loads(dibs(tmp_path, "vault", "hub", "init", path, "--json")) == {"path": path, "created": True}
    assert "exists already" in dibs(tmp_path, "vault", "hub", "init", path)
    assert "vault hub init PATH" in dibs(tmp_path, "vault", "hub", "make", path, code=1)


def test_without_the_hub_exit_75_and_without_a_remote_exit_1(clones: tuple[Path, Path], tmp_path: Path) -> None:
    here, _ = clones
    dibs(here, "add", "Fix login", "--id", "fix-login")
    dibs(here, "vault", "sync")
    os.rename(tmp_path / "hub.git", tmp_path / "away.git")
    before = files(here)
    for words in (("vault", "sync"), ("next", "--agent", "coder"), ("claim", "fix-login", "--agent", "coder")):
        assert "cannot be reached" in dibs(here, *words, code=75)
    assert files(here) == before
    assert "fix-login" in dibs(here, "list")
    git(here, "config", "dibs.sync", "false")
    assert "git remote" in dibs(here, "vault", "sync", code=1)
    assert "only a vault" in dibs(tmp_path, "vault", "sync", "--store", _board(tmp_path), code=1)


def _board(folder: Path) -> str:
    path = str(folder / "board.db")
    dibs(folder, "init", "--store", path)
    return path


def test_a_loop_goes_on_through_an_outage_until_it_is_interrupted(clones: tuple[Path, Path], tmp_path: Path) -> None:
    here, there = clones
    words = [sys.executable, "-m", "dibs.cli.main", "vault", "sync", "--loop", "1s", "--json"]
    loop = subprocess.Popen(words, cwd=there, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert loop.stdout is not None
    try:
        first = json.loads(loop.stdout.readline())
        assert first["news"] == []
        os.rename(tmp_path / "hub.git", tmp_path / "away.git")
        _until(loop, lambda told: told.get("code") == "STORE_UNAVAILABLE")
        os.rename(tmp_path / "away.git", tmp_path / "hub.git")
        dibs(here, "add", "Fix login", "--id", "fix-login")
        dibs(here, "vault", "sync")
        _until(loop, lambda told: told.get("news") == ["fix-login"])
        assert "Needs_Action/fix-login.md" in files(there)
    finally:
        loop.send_signal(signal.SIGINT)
        _, said = loop.communicate(timeout=PATIENCE_SECONDS)
    assert loop.returncode == 0, said


def _until(loop: subprocess.Popen[str], fits: Callable[[dict[str, Any]], bool]) -> None:
    assert loop.stdout is not None
    for _ in range(PATIENCE_SECONDS):
        if fits(json.loads(loop.stdout.readline())):
            return
    raise AssertionError("the loop never said so")


def test_an_index_with_unmerged_files_is_told_of_until_it_is_settled(clones: tuple[Path, Path]) -> None:
    here, there = clones
    dibs(here, "add", "Fix login", "--id", "fix-login")
    dibs(here, "vault", "sync")
    task = here / "Needs_Action" / "fix-login.md"
    before = task.read_text()
    task.write_text(f"{before}\nmine\n")
    git(here, "stash")
    task.write_text(f"{before}\nanother\n")
    dibs(here, "vault", "sync")
    subprocess.run(["git", "stash", "pop"], cwd=here, check=False, capture_output=True, timeout=PATIENCE_SECONDS)
    dibs(there, "vault", "sync")
    for _ in range(2):
        assert "unmerged files: Needs_Action/fix-login.md; resolve them" in dibs(here, "vault", "sync")
    assert "unmerged" in dibs(here, "doctor", code=1)
    git(here, "checkout", "HEAD", "--", "Needs_Action/fix-login.md")
    assert "unmerged" not in dibs(here, "vault", "sync")
    assert "unmerged" not in dibs(here, "doctor")


def test_of_a_claim_in_another_clone_no_end_is_told(clones: tuple[Path, Path]) -> None:
    here, there = clones
    dibs(here, "add", "Fix login", "--id", "fix-login", "--resource", "file:login.py")
    start(here, "third")
    dibs(here, "next", "--agent", "third")
    dibs(there, "vault", "sync")
    told = [
        dibs(there, "claim", "fix-login", "--agent", "other", code=4),
        dibs(there, "show", "fix-login"),
        dibs(there, "who"),
        dibs(there, "who", "--resources"),
    ]
    for text, words in zip(told, [*["while its clone shows signs of life"] * 2, *["while alive"] * 2], strict=True):
        assert words in text
        assert "9999" not in text
        assert "∞" not in text
