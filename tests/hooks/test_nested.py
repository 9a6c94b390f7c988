"""An agent that another agent has started: its commands inherit the variables of both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dibs.board import Board
from tests.hooks.agent import OTHER_SESSION, SESSION, Agent

INNER = "01a1e24a-8b3d-73c2-913f-3ce144c6bf89"


def holder(board: Board, item: str) -> tuple[str, str]:
    claim = board.get(item).claim
    assert claim is not None
    return claim.session, claim.agent


def of_shell(agent: Agent) -> dict[str, str]:
    """What a program in the shell of the agent inherits."""
    found = dict(line.split("=", 1) for line in agent.shell("env").out.splitlines() if "=" in line)
    return {name: value for name, value in found.items() if name.startswith(("DIBS_", "CLAUDE", "CODEX_"))}


@pytest.fixture
def inside(agents: Callable[..., Agent], board: Board) -> Callable[..., Agent]:
    """Starts agents in the shell of another one."""
    for item in "abc":
        board.add(item, id=item)

    def start(outer: Agent, session: str, client: str) -> Agent:
        inner = agents(session, client, **of_shell(outer))
        inner.start()
        return inner

    return start


def test_the_inner_agent_acts_as_itself(
    agents: Callable[..., Agent], inside: Callable[..., Agent], board: Board
) -> None:
    claude = agents()
    claude.start()
    codex = inside(claude, INNER, "codex")
    again = inside(codex, OTHER_SESSION, "claude")
    assert codex.shell("dibs claim a").code == 0
    assert again.shell("dibs claim b").code == 0
    assert claude.shell("dibs claim c").code == 0
    expected = [(INNER, "44c6bf89"), (OTHER_SESSION, OTHER_SESSION[:8]), (SESSION, SESSION[:8])]
    assert [holder(board, item) for item in "abc"] == expected
    # The history names the agent that did it, also where no session is needed.
    assert codex.shell("dibs add D --id d").code == 0
    assert board.events(item="d")[0].actor == "44c6bf89"
    # What is named on the line, or below the agent, is meant.
    assert codex.shell(f"dibs release c --session {SESSION}").code == 0
    assert codex.shell("DIBS_SESSION=worker DIBS_AGENT=w dibs claim c").code == 0
    assert holder(board, "c") == ("worker", "w")


def test_the_inner_agent_is_not_the_session_that_a_person_has_exported(
    agents: Callable[..., Agent], board: Board
) -> None:
    """Its hooks look after its own session, and would not notice a loss of the other one."""
    board.add("A", id="a")
    agent = agents(INNER, "codex", DIBS_SESSION="mine", DIBS_AGENT="me")
    agent.start()
    assert agent.shell("dibs claim a").code == 0
    assert holder(board, "a") == (INNER, "me")


def test_an_agent_without_hooks_acts_as_the_one_around_it(agents: Callable[..., Agent], board: Board) -> None:
    board.add("A", id="a")
    outer = agents()
    outer.start()
    inner = agents(INNER, "codex", **of_shell(outer))
    assert inner.shell("dibs claim a").code == 0
    assert holder(board, "a") == (SESSION, SESSION[:8])
    assert "name different sessions" in inner.shell("unset DIBS_SESSION; dibs claim a").err
