"""Subagents are sessions of their own, where the client can tell them apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dibs.board import Board
from tests.hooks.agent import OTHER_SESSION, SESSION, Agent, wait_for
from tests.hooks.conftest import BOB

FIRST, SECOND = "a67adc3d288542388", "a2a004e2efe1667f6"
THREAD = "01a1e24e-a798-74b0-be13-6adcb6999414"


def holder(board: Board, item: str) -> str | None:
    claim = board.get(item).claim
    return None if claim is None else claim.session


def test_two_subagents_exclude_each_other_and_end_when_they_stop(agent: Agent, board: Board) -> None:
    for item in "ab":
        board.add(item, id=item, resources=[f"src/{item}"])
    agent.start()
    codes = []
    for subagent in (FIRST, SECOND):
        assert agent.hook("SubagentStart", subagent) == {}
        answer = agent.bash("dibs claim a", subagent)
        # The shell of a subagent has the id of its parent, so the command is given the subagent's.
        assert answer["updatedInput"]["command"] == f"dibs claim a --session {SESSION}-{subagent}"
        assert answer["permissionDecision"] == "allow"
        codes.append(agent.shell(answer["updatedInput"]["command"]).code)
    assert codes == [0, 4]
    first = board.find_session(f"{SESSION}-{FIRST}")
    assert (first.parent, first.agent, holder(board, "a")) == (SESSION, SESSION[:8], first.id)
    # A command that is more than one call of dibs is left to the permissions of the person.
    answer = agent.bash("cd . && dibs claim b", SECOND)
    assert "permissionDecision" not in answer
    assert answer["updatedInput"]["command"] == f"export DIBS_SESSION={SESSION}-{SECOND}; cd . && dibs claim b"
    assert agent.bash("make", SECOND) == {}
    # Parent and subagent are a team, and may write what the other one reserves; two subagents exclude each other.
    board.claim("b", session=SESSION)
    assert (agent.edit("src/a/x"), agent.edit("src/b/x", FIRST)) == ({}, {})
    assert "reserves src/a/x for a" in agent.denied(agent.edit("src/a/x", SECOND))
    agent.hook("SubagentStop", FIRST, stop_hook_active=False)
    assert (holder(board, "a"), holder(board, "b")) == (None, SESSION)
    assert board.find_session(first.id).ended_at is not None
    # A compaction ends a subagent that never was.
    agent.hook("SubagentStop", "a00000000000000", stop_hook_active=False)
    agent.hook("SessionEnd", reason="other")
    assert board.find_session(f"{SESSION}-{SECOND}").ended_at is not None
    assert not list(agent.states.iterdir())


@pytest.mark.usefixtures("short_claims")
def test_a_subagent_is_renewed_and_fenced_like_its_parent(agent: Agent, board: Board) -> None:
    for item in "ab":
        board.add(item, id=item)
    agent.start()
    # Its start may have been missed: the first tool call makes up for that.
    agent.bash("make", FIRST)
    child = f"{SESSION}-{FIRST}"
    board.claim("a", session=child, ttl_seconds=1)
    wait_for(lambda: (claim := board.get("a").claim) is not None and claim.heartbeat_count > 1)
    board.claim("a", session=child, ttl_seconds=600)
    board.claim("b", session=SESSION, ttl_seconds=600)
    board.force_release("b", reason="needed elsewhere")
    wait_for((agent.state / "lost-b").exists)
    assert agent.bash("make", FIRST) == {}, "it has an item of its own"
    board.force_release("a", reason="needed elsewhere")
    wait_for((agent.states / child / "lost-a").exists)
    assert "your claim of a is lost" in agent.denied(agent.bash("make", FIRST))
    assert "your claim of b is lost" in agent.denied(agent.bash("make"))
    answer = agent.bash("dibs show a", FIRST)
    assert answer["updatedInput"]["command"] == f"export DIBS_SESSION={child}; dibs show a"
    assert agent.shell(answer["updatedInput"]["command"]).code == 0
    assert "your claim of b is lost" in agent.denied(agent.bash("make", FIRST))
    assert agent.shell(f"dibs release b --session {child}").code == 4
    # The subagent knows of it now, and nobody has told its parent.
    assert agent.bash("make", FIRST) == {}
    assert "your claim of b is lost" in agent.denied(agent.bash("make"))
    assert agent.shell("dibs release b").code == 4
    assert agent.bash("make") == {}


def test_a_subagent_goes_on_while_its_parent_holds_another_item(agent: Agent, board: Board) -> None:
    for item in "ab":
        board.add(item, id=item, resources=[f"src/{item}"])
    agent.start()
    for item in "ab":
        board.claim(item, session=SESSION)
    board.force_release("a", reason="needed elsewhere")
    wait_for((agent.state / "lost-a").exists)
    assert (agent.bash("make", FIRST), agent.edit("src/b/x", FIRST)) == ({}, {})
    assert "your claim of a is lost" in agent.denied(agent.edit("src/a/x", FIRST))
    board.release("b", session=SESSION)
    assert "your claim of a is lost" in agent.denied(agent.bash("make", FIRST))


def test_two_subagents_call_the_tools_of_dibs_as_themselves(agent: Agent, board: Board) -> None:
    agent.start()
    for subagent in (FIRST, SECOND):
        answer = agent.hook("PreToolUse", subagent, tool_name="mcp__dibs__next", tool_input={}, tool_use_id="t")
        assert answer["updatedInput"] == {"session": f"{SESSION}-{subagent}"}


def test_the_death_of_an_agent_frees_the_items_of_its_subagents(agent: Agent, board: Board) -> None:
    board.add("A", id="a")
    agent.hook("SessionStart", source="startup")
    agent.hook("SubagentStart", FIRST)
    board.claim("a", session=f"{SESSION}-{FIRST}")
    agent.kill()
    assert board.claim("a", session=BOB).claim.session == BOB


def test_a_subagent_of_codex_is_the_session_of_its_thread(agents: Callable[..., Agent], board: Board) -> None:
    board.add("A", id="a")
    agent = agents(OTHER_SESSION, "codex")
    agent.start()
    agent.hook("SubagentStart", THREAD)
    assert agent.bash("dibs claim a", THREAD) == {}
    agent.shell(f"CODEX_SESSION_ID={OTHER_SESSION} CODEX_THREAD_ID={THREAD} dibs claim a")
    assert (holder(board, "a"), board.find_session(THREAD).parent) == (THREAD, OTHER_SESSION)
    # What it is told to do is no prompt of a person.
    board.force_release("a", reason="needed elsewhere")
    wait_for((agent.states / THREAD / "lost-a").exists)
    agent.hook("UserPromptSubmit", THREAD, prompt="x")
    agent.denied(agent.bash("make", THREAD))
    agent.hook("SubagentStop", THREAD, stop_hook_active=False)
    assert not (agent.states / THREAD).exists()
