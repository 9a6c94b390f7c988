"""A hub and clones of it, with real git, and somebody who looks at them from outside."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile

from dibs.store.vault.git import hub
from dibs.store.vault.git import sync as syncing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from dibs.store.vault.git.sync import Sync


def git(folder: Path, *words: str, feed: str | None = None, env: dict[str, str] | None = None) -> str:
    """A person's git, in a folder."""
    answer = subprocess.run(
        ["git", "-C", str(folder), *words],
        check=True,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        input=feed,
        env={**os.environ, **(env or {}), "GIT_TERMINAL_PROMPT": "0"},
        timeout=60,
    )
    return answer.stdout


@functools.cache
def _new_hub() -> tempfile.TemporaryDirectory[str]:
    """A hub in a folder that ends with this process. A copy of it is cheaper than the gits that make one."""
    folder = tempfile.TemporaryDirectory(prefix="dibs-hub-")
    hub.make(os.path.join(folder.name, "hub.git"))
    return folder


def make_hub(folder: Path) -> Path:
    path = folder / "hub.git"
    shutil.copytree(os.path.join(_new_hub().name, "hub.git"), path)
    return path


def make_clone(folder: Path, name: str, remote: Path | str | None = None) -> Path:
    """A clone on the branch main, which follows the hub's."""
    path = folder / name
    settings = {
        "user.name": name,
        "user.email": f"{name}@example.org",
        "branch.main.remote": "origin",
        "branch.main.merge": "refs/heads/main",
    }
    options = [word for setting, value in settings.items() for word in ("-c", f"{setting}={value}")]
    git(folder, "clone", "--quiet", *options, str(remote or folder / "hub.git"), str(path))
    (path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (path / ".dibs").mkdir()
    (path / ".dibs" / ".gitignore").write_text("*\n")
    return path


def opened(clone: Path) -> Sync:
    sync = syncing.find(str(clone))
    assert sync is not None
    return sync


def put(clone: Path, path: str, text: str) -> None:
    (clone / path).parent.mkdir(parents=True, exist_ok=True)
    (clone / path).write_text(text)


def move(clone: Path, path: str, to: str) -> None:
    (clone / to).parent.mkdir(parents=True, exist_ok=True)
    os.rename(clone / path, clone / to)


def files(clone: Path) -> dict[str, str]:
    """Everything in a work tree but git's and dibs' own."""
    found = {}
    for place, folders, names in os.walk(clone):
        folders[:] = [name for name in folders if name not in (".git", ".dibs")]
        for name in names:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                with open(path, encoding="utf-8") as file:
                    found[os.path.relpath(path, clone)] = file.read()
    return found


def on_hub(folder: Path, branch: str = "main") -> dict[str, str]:
    """What the hub holds."""
    path = folder / "hub.git"
    names = git(path, "ls-tree", "-r", "-z", "--name-only", branch).split("\0")
    return {name: git(path, "show", f"{branch}:{name}") for name in names if name}
