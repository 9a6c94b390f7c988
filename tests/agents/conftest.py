"""Boards and agents for the tests of hooks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agents.agent import SESSION, Agent
from tests.e2e.conftest import Dibs, empty, environment  # noqa: F401  fixtures

__all__ = ["Dibs"]


@pytest.fixture
def board(tmp_path: Path, environment: dict[str, str], empty: Path) -> Dibs:  # noqa: F811  fixtures
    """An empty board, whose commands are those of session s2 of bob; the state of agents is kept beside it."""
    folder = tmp_path / "work"
    shutil.copytree(empty, folder)
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "DIBS_SESSION": "s2", "DIBS_AGENT": "bob"}
    return Dibs(folder, environment | state)


@pytest.fixture
def agents(board: Dibs) -> Iterator[Callable[..., Agent]]:
    """Starts agents on the board. In the end all of them are killed, and no keeper and no state may be left."""
    started: list[Agent] = []

    def start(session: str = SESSION, client: str = "claude", **options: object) -> Agent:
        clean = {name: value for name, value in board.environment.items() if not name.startswith("DIBS_")}
        folder = options.pop("folder", board.folder)
        given = {str(name): str(value) for name, value in options.items()}
        assert isinstance(folder, Path)
        started.append(Agent(folder, clean | given, session, client))
        return started[-1]

    yield start
    for one in started:
        one.kill()
    states = Path(board.environment["XDG_STATE_HOME"]) / "dibs" / "agents"
    left = sorted(states.iterdir()) if states.exists() else []
    assert not left, "a state folder was left"


@pytest.fixture
def agent(agents: Callable[..., Agent]) -> Agent:
    return agents()
