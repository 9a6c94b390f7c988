"""Turns: when claims are renewed, how often, and what an agent that wants to stop is asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from dibs.board import Board, connect
from dibs.errors import StoreUnavailable
from tests.hooks.agent import HOOK, SESSION, Agent, payload, wait_for
from tests.hooks.conftest import BOB
from tests.kit import processes
from tests.kit.aging import age_claims

HOOKS_AT_ONCE = 50


def test_stop_asks_once_about_each_claim(agent: Agent, board: Board) -> None:
    for item in "ab":
        board.add(item, id=item)
    agent.start()
    board.claim("a", session=SESSION)
    asked = agent.hook("Stop", stop_hook_active=False)
    assert asked["decision"] == "block"
    assert "you still hold a" in asked["reason"]
    assert agent.hook("Stop", stop_hook_active=True) == {}
    board.claim("b", session=SESSION)
    assert "you still hold" in agent.hook("Stop", stop_hook_active=False)["reason"]
    assert agent.hook("Stop", stop_hook_active=False) == {}
    # A prompt that no person typed begins no new turn: some clients send the question itself as one.
    for prompt in (asked["reason"], "<task-notification>\n<task-id>a1</task-id>"):
        agent.hook("UserPromptSubmit", prompt=prompt)
        assert agent.hook("Stop", stop_hook_active=False) == {}
    # A new turn asks anew; without an item in hand nobody is asked.
    agent.hook("UserPromptSubmit", prompt="go on")
    assert agent.hook("Stop", stop_hook_active=False)["decision"] == "block"
    for item in "ab":
        board.done(item, session=SESSION)
    agent.hook("UserPromptSubmit", prompt="go on")
    assert agent.hook("Stop", stop_hook_active=False) == {}
    assert not (agent.state / "active").exists()


def is_stopped(agent: Agent, board: Board) -> bool:
    """Stop the keeper, unless it holds the lock of the board right now."""
    os.kill(agent.keeper, signal.SIGSTOP)
    wait_for(lambda: processes.is_stopped(agent.keeper))
    try:
        with connect(str(agent.folder / ".dibs" / "board.db"), lock_wait_seconds=0.2) as hasty:
            hasty.heartbeat(session=BOB)
    except StoreUnavailable:
        os.kill(agent.keeper, signal.SIGCONT)
        board.heartbeat(session=BOB)  # waits until the keeper has let go
        return False
    return True


def renewals(board: Board, item: str) -> int:
    claim = board.get(item).claim
    assert claim is not None
    return claim.heartbeat_count


def test_many_hooks_at_once_renew_once(agent: Agent, board: Board) -> None:
    board.add("A", id="a")
    agent.start()
    board.claim("a", session=SESSION)
    wait_for(lambda: is_stopped(agent, board))
    age_claims(agent.folder / ".dibs" / "board.db", 120_000)  # a renewal is due
    given = agent.home / "payload"
    given.write_text(payload("claude", "PreToolUse", SESSION, agent.folder, tool_name="Bash", tool_input={}))
    agent.run(f"for n in $(seq {HOOKS_AT_ONCE}); do sh {HOOK} PreToolUse <{given} & done; wait")
    # The same without a state: each of them looks at the board by itself.
    agent.run(f"for n in 1 2 3 4; do rm -f {agent.state}/until; sh {HOOK} PreToolUse <{given} & done; wait")

    # On a slow disk each of them may have found the board locked: then a later one renews.
    def one_has_renewed() -> bool:
        agent.run(f"rm -f {agent.state}/until; sh {HOOK} PreToolUse <{given}")
        return renewals(board, "a") > 0

    wait_for(one_has_renewed)
    assert renewals(board, "a") == 1


def test_claims_last_45_minutes_from_the_first_unless_another_ttl_was_asked_for(agent: Agent, board: Board) -> None:
    for item in "abc":
        board.add(item, id=item)
    agent.start()
    assert "45m until" in agent.shell("dibs claim a").out
    assert "30m until" in agent.shell("dibs claim b --ttl 30m").out
    assert "45m until" in agent.shell("dibs next").out
    (agent.state / "poke").touch()
    wait_for(lambda: not (agent.state / "poke").exists())
    claims = [board.get(item).claim for item in "abc"]
    assert [claim and claim.ttl_seconds for claim in claims] == [2700, 1800, 2700]


def test_in_a_client_that_cannot_be_asked_a_turn_ends_with_items_in_hand(agent: Agent, board: Board) -> None:
    board.add("A", id="a")
    agent.start()
    board.claim("a", session=SESSION)
    given = agent.home / "given"
    given.write_text(payload("claude", "Stop", SESSION, agent.folder))
    assert agent.run(f"sh {HOOK} Stop opencode <{given}").out == ""
    assert not (agent.state / "active").exists()


@pytest.mark.usefixtures("short_claims")
def test_claims_are_renewed_during_a_turn_only(agent: Agent, board: Board) -> None:
    board.add("A", id="a")
    transcript = agent.home / "transcript.jsonl"
    usage = {"input_tokens": 10, "cache_read_input_tokens": 2000, "output_tokens": 5}
    transcript.write_text(json.dumps({"type": "assistant", "message": {"model": "opus-5", "usage": usage}}) + "\n")
    agent.hook("SessionStart", source="startup", transcript_path=str(transcript))
    agent.hook("UserPromptSubmit", prompt="go on")
    board.claim("a", session=SESSION, ttl_seconds=1)
    wait_for(lambda: (claim := board.get("a").claim) is not None and claim.heartbeat_count > 1)
    assert board.find_session(SESSION).meta == {"client": "claude", "model": "opus-5", "context_tokens": 2015}
    agent.hook("Stop", stop_hook_active=False)
    agent.hook("Stop", stop_hook_active=False)
    assert board.claim("a", session=BOB, wait_seconds=30).claim.session == BOB
    # The prompt that comes then tells of the loss, and the first tool call is not denied.
    told = agent.hook("UserPromptSubmit", prompt="go on")
    assert "taken over by bob" in told["additionalContext"]
    assert agent.bash() == {}


def test_without_an_owner_process_the_hooks_renew_by_themselves(agents: Callable[..., Agent], board: Board) -> None:
    """As where processes cannot be named: there is no keeper."""
    board.add("A", id="a")
    agent = agents()
    agent.run("export CLAUDE_PID=1")
    agent.start()
    assert not (agent.state / "keeper").exists()
    board.claim("a", session=SESSION, ttl_seconds=60)
    board.renew("a", session=SESSION, ttl_seconds=1)
    wait_for(lambda: board.get("a").claim is None)
    (agent.state / "until").unlink()
    assert agent.bash() == {}
    claim = board.get("a").claim
    assert claim is not None
    assert claim.session == SESSION
    agent.run(f"rm {agent.state}/* && rmdir {agent.state}")


def test_most_tool_calls_start_no_python(agent: Agent, board: Board) -> None:
    """Names in the input of a tool, which are not those of the event, change nothing about that."""
    agent.start()
    wait_for(lambda: (agent.state / "until").exists())
    (agent.home / "dibs").write_text(f"#!/bin/sh\necho $2 >>{agent.home}/started\n")
    (agent.home / "dibs").chmod(0o755)
    agent.run(f"export PATH={agent.home}:$PATH")
    input = {"command": 'echo "agent_id":"x"', "session_id": "y", "tool_name": "Edit", "agent_id": "z"}
    for tool in ("Bash", "Read", "Grep", "mcp__other__tool"):
        assert agent.hook("PreToolUse", tool_name=tool, tool_input=input) == {}
        assert agent.hook("PostToolUse", tool_name=tool, tool_input=input, tool_response={"agent_id": "z"}) == {}
    assert not (agent.home / "started").exists()
    agent.edit("x")
    assert (agent.home / "started").read_text() == "PreToolUse\n"
    done = subprocess.run(["sh", HOOK, "PreToolUse"], input=b"\0\xff{", capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def test_an_idle_agent_is_woken_for_a_loss_an_offer_and_a_hand_over_if_a_person_wants_that(
    agent: Agent, board: Board
) -> None:
    for item in "ab":
        board.add(item, id=item)
    agent.start()
    given = agent.home / "given"
    given.write_text(payload("claude", "Stop", SESSION, agent.folder, stop_hook_active=False))
    assert agent.run(f"sh {HOOK} Wake <{given}").code == 0
    assert not (agent.state / "waker").exists()
    board.claim("a", session=SESSION)
    board.claim("b", session=BOB)
    board.wait("b", session=SESSION)
    code, told = (agent.home / name for name in ("code", "told"))

    def wait_to_be_woken() -> None:
        code.unlink(missing_ok=True)
        agent.run(f"{{ DIBS_WAKE=on sh {HOOK} Wake <{given} 2>{told}; echo $? >{code}; }} & true")
        wait_for((agent.state / "waker").exists)

    wait_to_be_woken()
    # A second one ends at once, and so does that of a client that would wait for it.
    assert agent.run(f"DIBS_WAKE=on sh {HOOK} Wake <{given}").code == 0
    codex = payload("codex", "Stop", SESSION, agent.folder)
    assert agent.run(f"echo '{codex}' | DIBS_WAKE=on sh {HOOK} Wake").code == 0
    board.force_release("a", reason="needed elsewhere")
    wait_for((agent.state / "lost-a").exists)
    assert not code.exists(), "the agent is at work"
    (agent.state / "active").unlink()
    wait_for(lambda: code.read_text() == "2\n")
    assert "your claim of a is lost" in told.read_text()
    # The same loss wakes it only once; an offer does again.
    wait_to_be_woken()
    board.release("b", session=BOB)
    wait_for(lambda: code.read_text() == "2\n")
    assert told.read_text() == "dibs: b is offered to you. Run now: dibs claim b\n"
    wait_to_be_woken()
    board.claim("a", session=BOB)
    board.hand("a", to=SESSION, session=BOB)
    wait_for(lambda: code.read_text() == "2\n")
    assert told.read_text() == "dibs: a was handed to you. Run now: dibs claim a\n"
    wait_to_be_woken()
    agent.hook("SessionEnd", reason="other")
    wait_for(lambda: code.read_text() == "0\n")
