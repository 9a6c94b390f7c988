"""Where the board is: `--store`, `DIBS_STORE`, the repository's one for all its worktrees, or the nearest `.dibs`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Dibs


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(bare: Dibs) -> Path:
    folder = bare.folder / "repository"
    folder.mkdir()
    git(folder, "init")
    git(folder, "commit", "--allow-empty", "--message", "first")
    return folder


def test_without_a_board_it_says_the_line_to_type(bare: Dibs) -> None:
    done = bare("list")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "dibs: no board here or above; make one with: dibs init\n"


def test_init_makes_a_board_once(bare: Dibs) -> None:
    path = bare.folder / ".dibs" / "board.db"
    assert bare.json("init") == {"store": str(path), "created": True}
    assert path.exists()
    assert bare.json("init") == {"store": str(path), "created": False}
    assert str(path) in bare.ok("init")


def test_init_makes_the_board_of_another_folder(bare: Dibs) -> None:
    bare.ok("init", "there")
    bare.ok("add", "x", "--id", "x", folder=bare.folder / "there")
    assert (bare.folder / "there" / ".dibs" / "board.db").exists()


def test_the_board_is_found_from_any_folder_below(dibs: Dibs) -> None:
    dibs.ok("add", "x", "--id", "x")
    below = dibs.folder / "a" / "b"
    below.mkdir(parents=True)
    assert [item["id"] for item in dibs.json("list", folder=below)["items"]] == ["x"]


def test_worktrees_of_a_repository_share_one_board(bare: Dibs, repository: Path) -> None:
    worktree = bare.folder / "worktree"
    git(repository, "worktree", "add", str(worktree))
    (worktree / "deep").mkdir()
    bare.ok("init", folder=worktree)
    assert (repository / ".git" / "dibs" / "board.db").exists()
    bare.ok("add", "x", "--id", "x", folder=repository)
    assert [item["id"] for item in bare.json("list", folder=worktree / "deep")["items"]] == ["x"]


def test_the_board_of_a_repository_survives_git_clean(bare: Dibs, repository: Path) -> None:
    bare.ok("init", folder=repository)
    git(repository, "clean", "-fdx")
    assert bare.json("list", folder=repository) == {"items": []}
    status = subprocess.run(["git", "status", "--porcelain"], cwd=repository, capture_output=True, check=True)
    assert status.stdout == b""


@pytest.mark.parametrize("prefix", ["", "sqlite:"])
def test_a_named_store_comes_first(dibs: Dibs, prefix: str) -> None:
    named = f"{prefix}{dibs.folder}/elsewhere/board.db"
    dibs.ok("init", "--store", named)
    dibs.ok("add", "x", "--id", "x", "--store", named)
    assert dibs.json("list") == {"items": []}
    for words in (("--store", named, "list"), ("list", "--store", named), ("list", f"--store={named}")):
        assert [item["id"] for item in dibs.json(*words)["items"]] == ["x"]
    assert len(dibs.json("list", environment={"DIBS_STORE": named})["items"]) == 1


def test_an_unknown_kind_of_store_is_refused(dibs: Dibs) -> None:
    code, error = dibs.refused("list", "--store", "redis://localhost")
    assert (code, error["field"]) == (1, "store")


def test_agents_of_dibs_toml_are_there_from_the_start(bare: Dibs) -> None:
    (bare.folder / "dibs.toml").write_text('[agents.coder]\ntypes = ["bug"]\nmax_claims = 2\n')
    bare.ok("init")
    agents = bare.json("agent", "list")["agents"]
    assert [(agent["name"], agent["types"], agent["max_claims"]) for agent in agents] == [("coder", ["bug"], 2)]


@pytest.mark.parametrize("text", ["[board]\nttl_second = 5\n", "[board]\nttl_seconds = 'x'\n", "not toml at all"])
def test_a_wrong_dibs_toml_is_refused_by_name(dibs: Dibs, text: str) -> None:
    (dibs.folder / "dibs.toml").write_text(text)
    code, error = dibs.refused("list")
    assert (code, error["code"]) == (1, "INVALID")
    assert "dibs.toml" in error["message"]
