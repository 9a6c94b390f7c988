"""A repository with a board, for the tests of the guard: real git, and hooks that run a real `dibs`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.open import open_store
from tests.e2e.conftest import environment  # noqa: F401  a fixture
from tests.kit.waiting import PATIENCE_SECONDS

SETTINGS = DEFAULTS.replace(ttl_seconds_min=0.1)
#: Sessions of the board: the first loses its claim, the second takes the item over.
ANN, BOB = "ann-1", "bob-1"


class Repository:
    """Runs git in a work tree, as a session or as nobody. Commits get trailers only where hooks are installed."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:  # noqa: F811
        self.folder = folder
        self.environment = environment | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **{f"GIT_{who}_{what}": "ann" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }

    def run(self, *words: str, session: str | None = None, input: str = "", **variables: str) -> tuple[int, str]:
        """The exit code and the whole output of a command."""
        acting = {} if session is None else {"DIBS_SESSION": session}
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment | acting | variables,
            input=input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            start_new_session=True,
            check=False,
        )
        assert "Traceback" not in done.stdout, done.stdout
        return done.returncode, done.stdout

    def git(self, *words: str, session: str | None = None, **variables: str) -> str:
        """The output of a command of git that has to succeed."""
        code, output = self.run("git", *words, session=session, **variables)
        assert code == 0, (words, output)
        return output.strip()

    def dibs(self, *words: str, **variables: str) -> str:
        code, output = self.run("dibs", *words, **variables)
        assert code == 0, (words, output)
        return output.strip()

    def commit(self, message: str, *claims: str, session: str | None = None) -> str:
        """Commit a new file; return the commit. `claims` are written into the message, as the hook would."""
        name = f"{sum(1 for _ in self.folder.iterdir())}-{message}.txt"
        (self.folder / name).write_text(message)
        self.git("add", name)
        trailers = "".join(f"Dibs-Claim: {claim}\n" for claim in claims)
        self.git("commit", "-m", f"{message}\n\n{trailers}", session=session)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def message(self, revision: str = "HEAD") -> str:
        return self.git("log", "-1", "--format=%B", revision)

    def trailers(self, revision: str = "HEAD") -> list[str]:
        lines = self.message(revision).splitlines()
        return [line.strip().removeprefix("Dibs-Claim: ") for line in lines if "Dibs-Claim: " in line]


@pytest.fixture
def repository(tmp_path: Path, environment: dict[str, str]) -> Repository:  # noqa: F811
    """A repository with one commit and a remote `origin`; its board has claims as short as a test likes."""
    hub, work = tmp_path / "hub.git", tmp_path / "work tree"
    work.mkdir()
    repository = Repository(work, environment)
    repository.git("init", "--quiet", "--bare", "--initial-branch=main", str(hub))
    repository.git("init", "--quiet", "--initial-branch=main")
    repository.git("remote", "add", "origin", str(hub))
    (work / ".git" / "info" / "exclude").write_text("dibs.toml\n")
    (work / "dibs.toml").write_text("[board]\nttl_seconds = 1\nttl_seconds_min = 0.1\n")
    (work / ".git" / "dibs").mkdir(mode=0o700)
    open_store(str(work / ".git" / "dibs" / "board.db"), SETTINGS, create=True).close()
    repository.commit("first")
    repository.git("push", "--quiet", "origin", "main")
    return repository


@pytest.fixture
def board(repository: Repository) -> Iterator[Board]:
    """Its board, with a session of ann and one of bob."""
    url = str(repository.folder / ".git" / "dibs" / "board.db")
    with Board(open_store(url, SETTINGS), SETTINGS, actor="alice") as board:
        for session in (ANN, BOB):
            board.start_session(session.partition("-")[0], id=session)
        yield board


def lose(board: Board, item: str = "x", **content: Any) -> tuple[int, int]:
    """Ann claims a new item, does not renew the claim, and bob takes it over; return both tokens."""
    if not any(one.id == item for one in board.list()):
        board.add(item, id=item, **content)
    ann = board.claim(item, session=ANN, ttl_seconds=0.1)
    bob = board.claim(item, session=BOB, ttl_seconds=3600, wait_seconds=PATIENCE_SECONDS)
    return ann.claim.token, bob.claim.token


def import_commits(repository: Repository, claims: list[str]) -> None:
    """Commits on the branch `many`, one for each claim, made at once."""
    lines = ["reset refs/heads/many", "from refs/heads/main", ""]
    for claim in claims:
        message = f"work\n\nDibs-Claim: {claim}\n"
        lines += ["commit refs/heads/many", "committer ann <ann> 1700000000 +0000", f"data {len(message)}", message]
    repository.run("git", "fast-import", "--quiet", input="\n".join(lines))


def pushed(repository: Repository, *words: str, session: str | None = None, **variables: str) -> tuple[bool, str]:
    code, output = repository.run("git", "push", "--quiet", *words, session=session, **variables)
    return code == 0, output


def hub(repository: Repository, *words: str) -> str:
    return repository.git("-C", str(repository.folder.parent / "hub.git"), *words)


def install_in_hub(repository: Repository) -> None:
    store = str(repository.folder / ".git" / "dibs" / "board.db")
    folder = repository.folder.parent / "hub.git"
    code, output = repository.run("sh", "-c", f"cd '{folder}' && dibs guard install --store '{store}'")
    assert code == 0, output
