"""A board that is busy, or that comes later: what a hook cannot do now, the keeper or the next prompt does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dibs.board import Board
from tests.hooks.agent import OTHER_SESSION, SESSION, Agent, wait_for

SUBAGENT = "a67adc3d288542388"
CHILD = f"{SESSION}-{SUBAGENT}"


@contextmanager
def busy(folder: Path) -> Iterator[None]:
    """Another program writes, for longer than a hook waits."""
    with closing(sqlite3.connect(folder / ".dibs" / "board.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def live(board: Board) -> set[str]:
    return {view.session.id for view in board.sessions()}


def test_a_session_that_starts_while_the_board_is_busy_is_looked_after(
    agent: Agent, board: Board, folder: Path
) -> None:
    board.add("A", id="a")
    with busy(folder):
        assert "dibs next" in agent.hook("SessionStart", source="startup")["additionalContext"]
        assert agent.hook("SubagentStart", SUBAGENT) == {}
        assert agent.env_file.read_text() != ""
    wait_for(lambda: {SESSION, CHILD} <= live(board))
    owner = board.find_session(SESSION).owner
    assert owner is not None
    assert (owner.pid, board.find_session(CHILD).parent) == (agent.process.pid, SESSION)
    board.claim("a", session=SESSION)
    board.force_release("a", reason="needed elsewhere")
    wait_for((agent.state / "lost-a").exists)
    agent.denied(agent.bash())


def test_an_agent_is_asked_and_its_sessions_end_although_the_board_is_busy(
    agent: Agent, board: Board, folder: Path
) -> None:
    for item in "ab":
        board.add(item, id=item)
    agent.start()
    agent.hook("SubagentStart", SUBAGENT)
    board.claim("a", session=SESSION)
    board.claim("b", session=CHILD)
    with busy(folder):
        assert "you still hold a" in agent.hook("Stop", stop_hook_active=False)["reason"]
        agent.hook("SubagentStop", SUBAGENT, stop_hook_active=False)
    wait_for(lambda: board.get("b").claim is None)
    assert board.find_session(CHILD).end_reason == "the subagent stopped"
    with busy(folder):
        agent.hook("SessionEnd", reason="clear")
        assert board.get("a").claim is not None
    wait_for(lambda: board.get("a").claim is None)
    assert board.find_session(SESSION).end_reason == "claude: clear"
    wait_for(lambda: not agent.state.exists())


def test_a_prompt_starts_a_session_that_had_no_board(agents: Callable[..., Agent], tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.mkdir()
    agent = agents(OTHER_SESSION, at=later)
    assert agent.start() == ""
    assert agent.shell("dibs init && dibs add A --id a && dibs claim a").code == 0
    assert agent.hook("UserPromptSubmit", "a67adc3d288542388", prompt="go on") == {}
    assert "You hold a." in agent.hook("UserPromptSubmit", prompt="go on")["additionalContext"]
    assert (agent.state / "active").exists()
    assert "you still hold a" in agent.hook("Stop", stop_hook_active=False)["reason"]
