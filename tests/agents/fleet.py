"""A fleet on one board: clients that `dibs setup` has connected, and what the board and their state folders say."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from dibs.board import Board
from tests.agents.conftest import client
from tests.kit.agents.claude import Claude
from tests.kit.agents.codex import Codex
from tests.kit.agents.model import Model
from tests.kit.agents.process import Agent

#: The session of a person's own, which the test acts as.
BOB = "bob-1"
#: Claims last a second unless they are renewed.
SHORT_CLAIMS = "[board]\nttl_seconds = 1\nttl_seconds_min = 1\n"
POLL_SECONDS = 0.05

Connected = Claude | Codex
ConnectedT = TypeVar("ConnectedT", bound=Connected)


def connect(kind: type[ConnectedT], model: Model, project: Path) -> ConnectedT:
    """A client as a person sets it up in the project."""
    found = client(kind, model, project.parent)
    found.dibs("setup", kind.kind, "--yes", folder=project)
    return found


def holder(board: Board, item: str) -> str | None:
    claim = board.get(item).claim
    return None if claim is None else claim.session


def agent_name(kind: type[Connected], session: str) -> str:
    """How hooks name the agent of a session: ids of Codex begin with the time."""
    return session[-8:] if kind is Codex else session[:8]


def state(agent: Agent, session: str) -> Path:
    return agent.home / ".local" / "state" / "dibs" / "agents" / session


@contextmanager
def asleep(agent: Agent, session: str) -> Iterator[Callable[[], None]]:
    """Agent and keeper are stopped, as on a machine that sleeps; gives the function that wakes the agent. The keeper
    wakes up last, so that the hooks have to find out by themselves what happened."""
    keeper = int((state(agent, session) / "keeper").read_text())
    for pid in (agent.pid, keeper):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield lambda: agent.signal(signal.SIGCONT)
    finally:
        agent.signal(signal.SIGCONT)
        with suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGCONT)
