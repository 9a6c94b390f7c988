"""Real agents, each in a home of its own. One that cannot be had is skipped by its name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.open import open_store
from tests.agents.person import Person
from tests.kit.agents import programs
from tests.kit.agents.claude import Claude
from tests.kit.agents.client import Client
from tests.kit.agents.codex import Codex
from tests.kit.agents.model import Model
from tests.kit.agents.recorder import Recorder

ClientT = TypeVar("ClientT", bound=Client)


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder() as recorder:
        yield recorder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository that the agents work in."""
    folder = tmp_path / "project"
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Person:
    person = Person(tmp_path, capsys)
    person.home.mkdir()
    subprocess.run(["git", "init", "--quiet", str(person.project)], check=True)
    monkeypatch.setenv("HOME", str(person.home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(person.project)
    return person


@pytest.fixture
def claude(model: Model, tmp_path: Path) -> Claude:
    return client(Claude, model, tmp_path)


@pytest.fixture
def codex(model: Model, tmp_path: Path) -> Codex:
    return client(Codex, model, tmp_path)


def client(of: type[ClientT], model: Model, folder: Path) -> ClientT:
    program, why_not = programs.find(of.kind)
    if why_not:
        pytest.skip(why_not)
    return of(program, model, folder / f"{of.kind}-home")


@pytest.fixture
def board(project: Path) -> Iterator[Board]:
    """The board of the project, in this process, which acts as session `bob-1` there."""
    subprocess.run([sys.executable, "-m", "dibs.cli.main", "init"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    settings = DEFAULTS.replace(ttl_seconds_min=0.1)
    with Board(open_store(str(project / ".git" / "dibs" / "board.db"), settings), settings, actor="alice") as board:
        board.start_session("bob", id="bob-1")
        yield board
