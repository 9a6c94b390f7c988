"""Boards and agents for the tests of hooks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.open import open_store
from tests.e2e.conftest import empty, environment  # noqa: F401  fixtures
from tests.hooks.agent import SESSION, Agent, wait_for

#: Another session, of another agent, which this process acts as.
BOB = "bob-1"


@pytest.fixture
def folder(tmp_path: Path, empty: Path) -> Path:  # noqa: F811  a fixture
    """A folder with an empty board."""
    return Path(shutil.copytree(empty, tmp_path / "work"))


@pytest.fixture
def board(folder: Path) -> Iterator[Board]:
    """That board, in this process, where claims may be as short as a test likes."""
    settings = DEFAULTS.replace(ttl_seconds_min=0.1)
    board = Board(open_store(str(folder / ".dibs" / "board.db"), settings), settings, actor="alice")
    board.start_session("bob", id=BOB)
    with board:
        yield board


@pytest.fixture
def short_claims(folder: Path) -> None:
    """Claims last a second unless they are renewed, also those that a keeper has recovered."""
    (folder / "dibs.toml").write_text("[board]\nttl_seconds = 1\nttl_seconds_min = 1\n")


@pytest.fixture
def agents(folder: Path, tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Agent]]:  # noqa: F811
    """Starts agents on the board. In the end all of them are killed, and no keeper and no state may be left."""
    started: list[Agent] = []

    def start(session: str = SESSION, client: str = "claude", *, at: Path = folder, **variables: str) -> Agent:
        given = {"XDG_STATE_HOME": str(tmp_path / "state"), **variables}
        started.append(Agent(at, environment | given, session, client))
        return started[-1]

    yield start
    for one in started:
        one.continue_keeper()
        one.kill()
    states = tmp_path / "state" / "dibs" / "agents"
    wait_for(lambda: not states.exists() or not list(states.iterdir()))


@pytest.fixture
def agent(agents: Callable[..., Agent]) -> Agent:
    return agents()
