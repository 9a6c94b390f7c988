"""Where a folder's board is: one for all worktrees of a repository, else the nearest above."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dibs import board_url, location
from dibs.errors import Invalid


def git(*words: str, cwd: Path) -> None:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *settings, *words], cwd=cwd, check=True, capture_output=True)


def board_at(path: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).touch()
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git("init", cwd=folder)
    git("commit", "--allow-empty", "-m", "first", cwd=folder)
    return folder


def test_outside_a_repository_the_board_is_in_the_folder(tmp_path: Path) -> None:
    assert location.for_init(str(tmp_path)) == str(tmp_path / ".dibs" / "board.db")


def test_no_board_is_refused_with_the_line_to_type(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="dibs init"):
        location.find(str(tmp_path))


def test_a_board_is_found_from_any_folder_below(tmp_path: Path) -> None:
    board = board_at(location.for_init(str(tmp_path)))
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert location.find(str(below)) == board


def test_in_a_repository_the_board_is_in_its_git_directory(repository: Path) -> None:
    home = location.for_init(str(repository))
    assert home == str(repository / ".git" / "dibs" / "board.db")
    below = repository / "src"
    below.mkdir()
    assert location.for_init(str(below)) == home
    board_at(home)
    assert location.find(str(below)) == home


def test_every_worktree_has_the_same_board(repository: Path, tmp_path: Path) -> None:
    git("worktree", "add", str(tmp_path / "tree"), cwd=repository)
    assert location.for_init(str(tmp_path / "tree")) == location.for_init(str(repository))
    board = board_at(location.for_init(str(repository)))
    assert location.find(str(tmp_path / "tree")) == board


def test_a_clean_of_the_repository_spares_the_board(repository: Path) -> None:
    board = board_at(location.for_init(str(repository)))
    git("clean", "-fdx", cwd=repository)
    assert location.find(str(repository)) == board


def test_a_submodule_has_a_board_of_its_own(repository: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git("init", cwd=inner)
    git("commit", "--allow-empty", "-m", "first", cwd=inner)
    git("-c", "protocol.file.allow=always", "submodule", "add", str(inner), "sub", cwd=repository)
    home = location.for_init(str(repository / "sub"))
    assert home != location.for_init(str(repository))
    assert home.startswith(str(repository / ".git" / "modules"))


def test_a_git_file_that_says_nothing_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("nonsense")
    assert location.for_init(str(tmp_path)) == str(tmp_path / ".dibs" / "board.db")
    (tmp_path / ".git").write_bytes(b"\xff\xfe")
    assert location.for_init(str(tmp_path)) == str(tmp_path / ".dibs" / "board.db")


SHOWN = {
    "postgresql://host/work": "postgresql://host/work",
    "postgresql://me@host:5432/work": "postgresql://me@host:5432/work",
    "postgresql://me:secret@host/work": "postgresql://me:***@host/work",
    "postgres://me:secret@a:5432,b:5432/work?target_session_attrs=read-write": (
        "postgres://me:***@a:5432,b:5432/work?target_session_attrs=read-write"
    ),
    "postgresql:///work?host=/run/pg&password=secret": "postgresql:///work?host=/run/pg&password=***",
    "postgresql://host/work?pass%77ord=secret&sslpassword=secret": "postgresql://host/work?pass%77ord=***&sslpassword=***",
    "postgresql://host/work?password=se@cret": "postgresql://host/work?password=***",
    "postgresql://me:se@cr/e?t@host/work": "postgresql://me:***@host/work",
}


@pytest.mark.parametrize(("url", "shown"), SHOWN.items())
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert location.printable(url) == shown
    assert location.without_password(f"there is no {url} here") == f"there is no {shown} here"


def test_a_file_is_shown_with_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert location.printable("board.db") == location.printable("sqlite:board.db") == str(tmp_path / "board.db")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a.db", "sqlite:./a.db", True),
        ("a.db", "b.db", False),
        ("postgresql://me:x@host/work", "postgres://you@host/work", True),
        ("postgresql://host/work", "postgresql://host/play", False),
        ("postgresql:///work?host=/a&user=me@x", "postgresql:///work?host=/b&user=me@x", False),
        ("postgresql://host/work", "host/work", False),
    ],
)
def test_two_urls_of_one_board_are_known(one: str, other: str, same: bool) -> None:
    assert board_url.is_same(one, other) is same
