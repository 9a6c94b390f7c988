"""Large files of git-lfs in worktrees: checked out, committed and pushed as its filters and hooks have it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.worktrees.conftest import Project

pytestmark = pytest.mark.skipif(shutil.which("git-lfs") is None, reason="this machine has no git-lfs")


@pytest.fixture
def with_lfs(project: Project) -> Project:
    """A project with a large file in it, and a remote."""
    project.add_remote()
    project.git("lfs", "install", "--local")
    project.git("lfs", "track", "*.bin")
    (project.folder / "old.bin").write_text("old content\n")
    project.git("add", ".gitattributes", "old.bin")
    project.git("commit", "-q", "-m", "a large file")
    project.git("push", "-q", "origin", "main")
    return project


def objects(folder: Path) -> int:
    return sum(1 for one in folder.glob("lfs/objects/*/*/*") if one.is_file())


def test_large_files_are_checked_out_committed_and_pushed(with_lfs: Project) -> None:
    with_lfs.ok("guard", "install")
    with_lfs.add("x", "y")
    work = "cat old.bin; echo new >new.bin; git add .; git commit -q -m more"
    done = with_lfs.exec("x", f"{work}; exit 1")
    assert "x | old content\n" in done.stdout, done.stdout + done.stderr
    assert with_lfs.git("show", "dibs/x:new.bin").startswith("version https://git-lfs.github.com/spec/")
    assert with_lfs.listed()["x"]["uncommitted"] == 0
    remote = with_lfs.folder.with_name("remote.git")
    assert objects(remote) == 1
    done = with_lfs.exec("y", f"{work}; git push -q origin HEAD")
    assert done.returncode == 0, done.stdout + done.stderr
    assert objects(remote) == 2, "the hook of git-lfs runs before the guard's"
    assert set(with_lfs.listed()) == {"x"}, "what is pushed is removed"


def test_an_item_is_parked_if_a_large_file_cannot_be_had(with_lfs: Project) -> None:
    with_lfs.add("x")
    stores = [folder / "lfs" for folder in (with_lfs.folder / ".git", with_lfs.folder.with_name("remote.git"))]
    for store in stores:
        store.rename(store.with_name("away"))
    done = with_lfs.exec("x", "cat old.bin")
    assert done.returncode == 75
    assert "Smudge error" in with_lfs.last_run("x")["reason"]
    assert with_lfs.json("show", "x")["item"]["status"] == "parked"
    for store in stores:
        store.rename(store.with_name("failed"))
        store.with_name("away").rename(store)
    with_lfs.ok("unpark", "x")
    done = with_lfs.exec("x", "cat old.bin")
    assert "x | old content\n" in done.stdout, done.stdout + done.stderr
