"""A git repository with a board, in a folder whose name has spaces, and real `dibs` processes in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Dibs, command_server, ended, environment, small_disk
from tests.kit.processes import await_gone
from tests.kit.waiting import until

__all__ = ["command_server", "ended", "environment", "small_disk"]

IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Project(Dibs):
    """A repository, and dibs in it."""

    @property
    def trees(self) -> Path:
        """Where worktrees are made."""
        return self.folder.with_name(f"{self.folder.name}.worktrees")

    @property
    def records(self) -> Path:
        return self.folder / ".git" / "dibs" / "worktrees"

    def git(self, *words: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=folder or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def exec(self, item: str, script: str, *options: str) -> subprocess.CompletedProcess[str]:
        return self("exec", item, "--worktree", *options, "--", "sh", "-c", script)

    def refused_run(self, *options: str, **context: Any) -> str:
        """Why a run of the item x is refused before the item is claimed."""
        done = self("exec", "x", *options, "--json", "--", "true", **context)
        assert done.returncode in (1, 2), done
        assert self.json("runs")["runs"] == []
        message: str = json.loads(done.stdout)["error"]["message"]
        return message

    def add(self, *items: str) -> None:
        lines = [json.dumps({"id": item, "title": f"Title of {item}"}) for item in items]
        self.ok("add", "--file", "-", input="\n".join(lines))

    def add_remote(self) -> None:
        remote = str(self.folder.with_name("remote.git"))
        self.git("init", "-q", "--bare", remote)
        self.git("remote", "add", "origin", remote)

    def listed(self) -> dict[str, dict[str, Any]]:
        return {one["item"]: one for one in self.json("worktree", "list")["worktrees"]}

    def subjects(self, branch: str) -> list[str]:
        """The subjects of the commits on a branch since main, the oldest first."""
        return self.git("log", "--reverse", "--format=%s", f"main..{branch}").splitlines()

    def last_run(self, item: str) -> dict[str, Any]:
        run: dict[str, Any] = self.json("runs", "--item", item)["runs"][0]
        return run


@pytest.fixture
def project(tmp_path: Path, environment: dict[str, str]) -> Project:
    folder = tmp_path / "my project"
    folder.mkdir()
    made = Project(folder, environment | IDENTITY | {"HOME": str(tmp_path), "DIBS_AGENT": "coder"})
    made.git("init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitignore").write_text("*.log\n")
    made.git("add", ".")
    made.git("commit", "-q", "-m", "first")
    made.ok("init")
    return made


@pytest.fixture
def left() -> Iterator[Callable[[Path], list[int]]]:
    """Reads the pids that a command wrote into a file, and sees to it that none outlives the test."""
    known: list[int] = []

    def read(path: Path) -> list[int]:
        until(lambda: path.exists() and path.read_text().endswith("\n"))
        found = [int(word) for word in path.read_text().split()]
        known.extend(found)
        return found

    yield read
    await_gone([pid for pid in known if os.path.exists(f"/proc/{pid}")], 0)
