"""What git's index says of a path, in every form that git writes: read without running git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dibs.system import git_index


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True)


def committed(folder: Path, *paths: str, hashes: str = "sha1") -> Path:
    folder.mkdir()
    git(folder, "init", f"--object-format={hashes}")
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    git(folder, "add", "--force", ".")
    git(folder, "commit", "--message", "all")
    return folder


def is_tracked(top: Path, path: str) -> bool:
    why = git_index.problem(str(top / path), str(top), str(top / ".git"))
    assert why is None or why.startswith("comes from a commit"), why
    return why is not None


LONG = "/".join(["d" * 200] * 12)


@pytest.mark.parametrize("form", ["sha1", "sha256", "version 3", "split"])
def test_a_path_is_tracked_if_the_index_names_it_or_something_below(tmp_path: Path, form: str) -> None:
    paths = ("a", ".dibs-x", "x.dibs", "src/.dibs/board.db", "other/.DIBS/board.db", "é/.dibs", f"{LONG}/.dibs/b")
    top = committed(tmp_path / "top", *paths, hashes="sha256" if form == "sha256" else "sha1")
    if form == "version 3":
        (top / "later").touch()
        git(top, "add", "--intent-to-add", "later")
        assert (top / ".git" / "index").read_bytes()[7] == 3
    if form == "split":
        git(top, "update-index", "--split-index")
        assert b"x.dibs" not in (top / ".git" / "index").read_bytes()
    assert is_tracked(top, "x.dibs")
    for folder in ("src", "other", "é", LONG):
        assert is_tracked(top, f"{folder}/.dibs"), folder
    assert not is_tracked(top, ".dibs")
    assert not is_tracked(top, "src/deep/.dibs")
    assert is_tracked(top, "SRC/.dibs"), "some file systems do not tell the two apart"


def test_a_letter_that_file_systems_fold_is_the_letter(tmp_path: Path) -> None:
    assert is_tracked(committed(tmp_path / "top", ".dib\u017f/board.db"), ".dibs")


def test_a_link_to_a_folder_of_the_work_tree_hides_nothing(tmp_path: Path) -> None:
    top = committed(tmp_path / "top", "src/.dibs/board.db")
    (top / "link").symlink_to("src")
    assert is_tracked(top, "link/.dibs")


def test_what_a_sparse_index_has_as_a_folder_is_tracked(tmp_path: Path) -> None:
    top = committed(tmp_path / "top", "in/f", "out/f")
    git(top, "sparse-checkout", "set", "--cone", "--sparse-index", "in")
    assert b"sdir" in (top / ".git" / "index").read_bytes()
    assert is_tracked(top, "out/deep/.dibs")
    assert not is_tracked(top, "in/.dibs")


def test_what_git_knows_as_untracked_is_not_tracked(tmp_path: Path) -> None:
    top = committed(tmp_path / "top", "f")
    (top / ".dibs").mkdir()
    (top / ".dibs" / "board.db").touch()
    git(top, "update-index", "--force-untracked-cache")
    git(top, "status")
    assert b".dibs" in (top / ".git" / "index").read_bytes()
    assert not is_tracked(top, ".dibs")


def test_without_an_index_nothing_is_tracked(tmp_path: Path) -> None:
    git(tmp_path, "init")
    assert not is_tracked(tmp_path, ".dibs")


def test_an_index_that_does_not_tell_leaves_it_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = committed(tmp_path / "top", "f")
    index = top / ".git" / "index"
    whole = index.read_bytes()

    def why() -> str:
        said = git_index.problem(str(top / ".dibs"), str(top), str(top / ".git"))
        assert said is not None
        return said

    for text, reason in [
        (b"", "is not a git index"),
        (b"nonsense that is longer", "is not a git index"),
        (whole[:7] + b"\4" + whole[8:], "version 4"),
        (whole[:11] + b"\2" + whole[12:] + b".dibs", "unknown form"),
    ]:
        index.write_bytes(text)
        assert "may come from a commit" in why()
        assert reason in why()
    index.write_bytes(whole)
    monkeypatch.setattr(git_index, "BYTES_MAX", len(whole) - 1)
    assert "is larger" in why()
    for make in (os.mkfifo, os.mkdir):
        index.unlink()
        make(index)
        assert "is not a regular file" in why()
    index.rmdir()
    index.symlink_to("/dev/zero")
    assert "cannot be read" in why()
