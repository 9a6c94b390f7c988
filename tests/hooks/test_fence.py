"""The fence: an agent that lost an item is stopped at its next tool call, until it has answered."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import Board
from tests.hooks.agent import OTHER_SESSION, SESSION, Agent, wait_for
from tests.hooks.conftest import BOB


@pytest.fixture
def working(agent: Agent, board: Board) -> Agent:
    """An agent in a turn, on a board with two items."""
    board.add("A", id="a", resources=["src/a.py"])
    board.add("B", id="b", resources=["src/b"])
    agent.start()
    return agent


def claim_shortly(board: Board) -> int:
    """A short claim of the agent, which its keeper has renewed; returns its token."""
    board.claim("a", session=SESSION, ttl_seconds=1)
    wait_for(lambda: (claim := board.get("a").claim) is not None and claim.heartbeat_count)
    return board.get("a").item.token


def take_over(board: Board, item: str) -> None:
    """Take an item from an agent that is stopped, once its claim has expired."""
    board.claim(item, session=BOB, wait_seconds=30)


@pytest.mark.usefixtures("short_claims")
def test_a_zombie_is_denied_at_its_next_tool_call_until_it_answers(working: Agent, board: Board) -> None:
    claim_shortly(board)
    working.stop()
    take_over(board, "a")
    working.go_on()
    for answer in (working.bash("make"), working.edit("README.md")):
        why = working.denied(answer)
        assert "your claim of a is lost: it was taken over by bob (session bob-1)" in why
        assert "Run: dibs release a; then: dibs next" in why
        assert "\n" not in why
    # Reading and thinking is not stopped, and neither is a call of dibs that names the item.
    assert working.hook("PreToolUse", tool_name="Read", tool_input={"file_path": "/x"}) == {}
    assert working.bash("dibs release a") == {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    done = working.shell("dibs release a")
    assert (done.code, "bob (session bob-1)" in done.err) == (4, True)
    assert (working.bash("make"), working.edit("README.md")) == ({}, {})
    assert board.get("a").claim.session == BOB  # type: ignore[union-attr]


@pytest.mark.usefixtures("short_claims")
def test_an_expired_claim_that_nobody_took_is_recovered_silently(working: Agent, board: Board) -> None:
    token = claim_shortly(board)
    working.stop()
    wait_for(lambda: board.get("a").claim is None)
    working.go_on()
    assert working.bash("make") == {}
    claim = board.get("a").claim
    assert claim is not None
    assert claim.session == SESSION
    assert claim.token > token


def test_a_call_of_dibs_in_a_sandbox_answers_too(working: Agent, board: Board) -> None:
    """There it cannot write the state folder; the hook after it does."""
    board.claim("a", session=SESSION)
    board.force_release("a", reason="needed elsewhere")
    wait_for((working.state / "lost-a").exists)
    working.hook("PostToolUse", tool_name="Bash", tool_input={"command": "make a"})
    working.denied(working.bash("make"))
    working.hook("PostToolUseFailure", tool_name="Bash", tool_input={"command": "dibs release a"}, error="Exit code 4")
    assert working.bash("make") == {}


@pytest.mark.parametrize("how", ["force_released", "cancelled"])
def test_a_claim_that_a_person_ended_denies_until_the_next_prompt(working: Agent, board: Board, how: str) -> None:
    board.claim("a", session=SESSION)
    if how == "cancelled":
        board.cancel("a", reason="duplicate")
    else:
        board.force_release("a", reason="needed elsewhere")
    wait_for((working.state / "lost-a").exists)
    assert f"it was {how.replace('_', '-')} by alice at" in working.denied(working.bash("make"))
    told = working.hook("UserPromptSubmit", prompt="go on")
    assert "your claim of a is lost" in told["additionalContext"]
    assert working.bash("make") == {}
    # It is told once: neither the keeper nor a later look bring it back.
    (working.state / "until").unlink()
    assert working.bash("make") == {}
    assert working.hook("UserPromptSubmit", prompt="go on") == {}


def test_an_agent_that_lost_one_of_two_items_may_not_edit_what_belongs_to_the_lost_one(
    working: Agent, board: Board
) -> None:
    board.claim("a", session=SESSION)
    board.claim("b", session=SESSION)
    board.force_release("b", reason="needed elsewhere")
    wait_for((working.state / "lost-b").exists)
    assert working.bash("make") == {}
    assert working.edit("src/a.py") == {}
    assert "your claim of b is lost" in working.denied(working.edit("src/b/deep/x.py"))
    board.release("a", session=SESSION)
    assert "your claim of b is lost" in working.denied(working.bash("make"))


def test_the_fence_can_be_switched_off(agents: Callable[..., Agent], board: Board, folder: Path) -> None:
    board.add("A", id="a")
    agent = agents(DIBS_FENCE="off")
    agent.start()
    board.claim("a", session=SESSION)
    board.force_release("a", reason="needed elsewhere")
    wait_for((agent.state / "lost-a").exists)
    assert agent.bash("make") == {}
    agent.run("unset DIBS_FENCE")
    agent.denied(agent.bash("make"))
    (folder / "dibs.toml").write_text("[board]\nfence = false\n")
    assert agent.bash("make") == {}


# Files in use


def test_a_file_that_another_claim_reserves_is_denied_in_every_worktree(
    agents: Callable[..., Agent], board: Board, folder: Path, tmp_path: Path
) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    shutil.move(folder / ".dibs", folder / ".git" / "dibs")
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "tree")], check=True)
    for item in "abc":
        board.add(item, id=item, resources=[f"src/{item}"])
    board.claim("a", session=BOB)
    here, there = agents(), agents(OTHER_SESSION, "codex", at=tmp_path / "tree")
    for one, session, item in ((here, SESSION, "b"), (there, OTHER_SESSION, "c")):
        one.hook("SessionStart", source="startup")
        # An agent that never claimed anything is only told.
        told = one.edit("src/a/x.py")
        assert "permissionDecision" not in told
        assert "bob (session bob-1) reserves src/a/x.py for a" in told["additionalContext"]
        board.claim(item, session=session)
    assert "bob (session bob-1) reserves src/a/x.py for a" in here.denied(here.edit("src/a/x.py"))
    assert (here.edit("src/apis.py"), here.edit(f"src/b/{'x'}"), here.edit("/tmp/src/a/x.py")) == ({}, {}, {})
    assert "reserves src/a/x.py for a" in here.denied(here.edit(tmp_path / "tree" / "src" / "a" / "x.py"))
    patch = "*** Begin Patch\n*** Update File: src/c/y.py\n*** Move to: src/a/new.py\n@@\n-a\n+b\n*** End Patch\n"
    answer = there.hook("PreToolUse", tool_name="apply_patch", tool_input={"command": patch}, tool_use_id="t")
    assert "reserves src/a/new.py for a" in there.denied(answer)
    # Writes by a command are not covered.
    assert here.bash("echo x >src/a/x.py") == {}
    board.done("a", session=BOB)
    assert here.edit("src/a/x.py") == {}


# Permissions


def test_only_a_simple_harmless_call_of_dibs_is_allowed(working: Agent) -> None:
    allow = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    assert working.bash("dibs progress a 'it is \"nearly\" done; $HOME'") == allow
    for tool in ("mcp__dibs__claim", "mcp__plugin_dibs_dibs__claim"):
        assert working.hook("PreToolUse", tool_name=tool, tool_input={"item": "a"}) == allow
    for command in ("dibs next; rm -rf x", "dibs work -- rm x", "dibs next && x", "dibs show $(x)", "dibs init"):
        assert working.bash(command) == {}, command
