"""An agent with hooks that also calls the tools of `dibs mcp`: hooks name the session, and they alone tend it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.mcp.local import BEGIN_ANOTHER, LEAVE_OUT
from tests.hooks.agent import OTHER_SESSION, SESSION, Agent, wait_for
from tests.mcp.client import RUN, Connection

FIRST, SECOND = (f"{SESSION}-{subagent}" for subagent in ("a67adc3d288542388", "a2a004e2efe1667f6"))

Connect = Callable[[Agent], Connection]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """Starts `dibs mcp` as a child of an agent."""
    started: list[Connection] = []

    def connect(agent: Agent) -> Connection:
        names = [str(tmp_path / f"{stream}-{len(started)}") for stream in ("in", "out")]
        for name in names:
            os.mkfifo(name)
        agent.run(f"{sys.executable} -c '{RUN}' mcp <{names[0]} >{names[1]} & :")
        started.append(Connection(open(names[0], "wb"), open(names[1], "rb")))  # noqa: SIM115 - closed below
        return started[-1]

    yield connect
    for connection in started:
        connection.close()


@pytest.fixture
def working(agent: Agent, board: Board) -> Agent:
    for item in "abc":
        board.add(item, id=item)
    agent.start()
    return agent


def holder(board: Board, item: str) -> str | None:
    claim = board.get(item).claim
    return None if claim is None else claim.session


def test_the_server_takes_the_sessions_that_hooks_of_its_own_client_tend(
    working: Agent, board: Board, agents: Callable[..., Agent], connect: Connect
) -> None:
    server = connect(working)
    for session in (FIRST, SECOND):
        working.hook("SubagentStart", session.removeprefix(f"{SESSION}-"))
    assert server.call("claim", item="a", session=FIRST)["claimed"] == "a"
    assert server.call("claim", item="a", session=SECOND)["error"] == "TASK_ALREADY_CLAIMED"
    assert server.call("claim", item="b")["claimed"] == "b"
    assert (holder(board, "a"), holder(board, "b")) == (FIRST, SESSION)
    # Hooks of another client tend this one.
    other = agents(OTHER_SESSION)
    other.start()
    for session in (OTHER_SESSION, "bob-1"):
        refused = server.call("claim", item="c", session=session)
        assert (refused["error"], refused["do"]) == ("FORBIDDEN", LEAVE_OUT)
    # A clear: the environment of the server still names the session before it.
    working.hook("SessionEnd", reason="clear")
    working.become("7d0c3b1e-0000-4000-8000-000000000001")
    working.hook("SessionStart", source="clear")
    assert server.call("claim", item="c", session=working.session)["claimed"] == "c"
    ended = server.call("claim", item="b", session=FIRST)
    assert (ended["error"], ended["do"]) == ("SESSION_NOT_FOUND", BEGIN_ANOTHER)
    assert holder(board, "c") == working.session


def test_a_session_that_hooks_could_not_start_is_started_as_theirs(
    working: Agent, board: Board, connect: Connect
) -> None:
    """As on a board that only the keeper opens, and which has not answered it yet."""
    state = working.states / FIRST
    state.mkdir()
    record = (working.state / "session.json").read_text()
    (working.state / f"child-{FIRST}").touch()
    (state / "session.json").write_text(record.replace(f'"{SESSION}"', f'"{FIRST}"', 1))
    assert connect(working).call("claim", item="a", session=FIRST)["claimed"] == "a"
    session = board.find_session(FIRST)
    assert session.owner is not None
    assert (session.agent, session.owner.pid) == (SESSION[:8], working.process.pid)


def test_a_session_whose_agents_process_was_not_found_is_accepted(
    agents: Callable[..., Agent], board: Board, connect: Connect
) -> None:
    """As that of a client that is installed under another name: the hook names the session in every call."""
    board.add("A", id="a")
    agent = agents("gem-1", "codex")
    head = {"session_id": "gem-1", "cwd": str(agent.folder), "timestamp": "2026-11-16T00:00:00Z"}
    agent.hook_with("SessionStart", json.dumps(head | {"source": "startup"}))
    assert json.loads((agent.state / "session.json").read_text())["owner"] is None
    agent.run("unset CODEX_THREAD_ID")
    call = json.dumps(head | {"tool_name": "mcp_dibs_claim", "tool_input": {"item": "a"}})
    assert connect(agent).call("claim", **agent.hook_with("BeforeTool", call)["tool_input"])["claimed"] == "a"
    assert holder(board, "a") == "gem-1"
    agent.hook_with("SessionEnd", json.dumps(head | {"reason": "exit"}))


def test_the_server_neither_renews_nor_releases_what_hooks_tend(
    working: Agent, board: Board, folder: Path, connect: Connect
) -> None:
    short = "[board]\nttl_seconds = 1\nttl_seconds_min = 1\nheartbeat_seconds = 0.2\n"
    server = connect(working)
    assert server.call("claim", item="a")["claimed"] == "a"
    server.close()
    (folder / "dibs.toml").write_text(short)
    again = connect(working)
    assert again.call("who")["you"] == SESSION
    assert holder(board, "a") == SESSION, "the connection was closed, and the agent goes on"
    assert again.call("claim", item="b")["claimed"] == "b"
    for _ in range(2):
        working.hook("Stop", stop_hook_active=False)
    wait_for(lambda: board.get("b").item.status == "ready")
    assert again.call("who")["you"] == SESSION


def test_a_loss_is_answered_by_a_call_that_the_board_has_answered(
    working: Agent, board: Board, connect: Connect
) -> None:
    server = connect(working)
    for tool in ("release", "show"):
        server.call("claim", item="a")
        board.force_release("a", reason="x")
        wait_for(lambda: (working.state / "lost-a").exists())
        # An argument that does not fit, and another item, are no answer about this one.
        assert server.call(tool, item="a", nothing=1)["error"] == "INVALID"
        server.call("show", item="b")
        assert "your claim of a is lost" in working.denied(working.bash("make"))
        assert ("error" in server.call(tool, item="a")) == (tool == "release")
        assert working.bash("make") == {}
