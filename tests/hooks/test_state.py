"""The state folder: whose it is, how long it stays, and what a command in a sandbox can write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.agents.state import FRESH_SECONDS, Record, State
from dibs.board import Board
from tests.hooks.agent import HOOK, OTHER_SESSION, SESSION, Agent, payload, wait_for, wait_for_end

SUBAGENT = "a67adc3d288542388"
ELSEWHERE = {"owner": {"boot_id": "another", "pid_namespace": 1, "pid": 1, "start_time": 1}}
WEEK_SECONDS = 7 * 86400


def copied(agent: Agent, name: str, **fields: object) -> Path:
    """Another state folder, as of another session."""
    folder = agent.states / name
    folder.mkdir()
    record = json.loads((agent.state / "session.json").read_text())
    (folder / "session.json").write_text(json.dumps(record | {"session": name} | fields))
    return folder


def test_the_state_of_another_machine_goes_by_age_and_that_of_an_earlier_boot_at_once(
    agent: Agent, board: Board
) -> None:
    agent.start()
    earlier = copied(agent, "earlier", **ELSEWHERE)
    remote, old = (copied(agent, name, **ELSEWHERE, host="elsewhere") for name in ("remote", "old"))
    long_ago = time.time() - WEEK_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    agent.hook("SessionStart", source="compact")
    assert [folder.exists() for folder in (earlier, remote, old, agent.state)] == [False, True, False, True]
    agent.run(f"rm {remote}/session.json; rmdir {remote}")


def test_a_folder_that_others_can_write_is_not_used(agent: Agent, board: Board) -> None:
    agent.states.mkdir(parents=True)
    for mode, owner in ((0o777, -1), (0o700, 65534)):
        if owner > 0 and os.getuid() != 0:
            continue
        os.chown(agent.states, owner, -1)
        agent.states.chmod(mode)
        assert agent.hook("SessionStart", source="startup") == {}
        # Nor is what others have put there.
        agent.state.mkdir()
        (agent.state / "session.json").write_text(json.dumps({"session": SESSION, "agent": "x", "client": "claude"}))
        (agent.state / "lost-a").write_text(json.dumps({"item": "a", "token": 1, "how": "x", "by": "x", "since": 0}))
        assert agent.bash() == {}
        assert (agent.state / "lost-a").exists()
        shutil.rmtree(agent.state)
    os.chown(agent.states, os.getuid(), -1)
    agent.states.chmod(0o700)
    assert agent.start() != ""


def test_a_relative_state_home_is_ignored(agent: Agent, board: Board, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    agent.run(f"export XDG_STATE_HOME=relative HOME={home}")
    agent.states = home / ".local" / "state" / "dibs" / "agents"
    board.add("A", id="a")
    agent.start()
    board.claim("a", session=SESSION)
    board.force_release("a", reason="needed elsewhere")
    wait_for((agent.state / "lost-a").exists)
    agent.denied(agent.bash())
    assert not (agent.folder / "relative").exists()
    agent.kill()
    wait_for(lambda: not agent.state.exists())


def test_a_pipe_in_place_of_a_file_blocks_no_hook(agent: Agent, board: Board) -> None:
    agent.start()
    wait_for((agent.state / "until").exists)
    for name in ("lost-a", "answered", "asked", "view.json"):
        (agent.state / name).unlink(missing_ok=True)
        os.mkfifo(agent.state / name)
    os.kill(agent.keeper, 9)
    (agent.state / "until").unlink()
    os.mkfifo(agent.state / "until")
    for event, fields in (
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
        ("UserPromptSubmit", {"prompt": "go on"}),
        ("Stop", {"stop_hook_active": False}),
    ):
        given = agent.home / "given"
        given.write_text(payload("claude", event, SESSION, agent.folder, **fields))
        assert agent.run(f"timeout 20 sh {HOOK} {event} <{given}").code == 0, event


def test_a_turn_without_hooks_for_as_long_as_a_claim_lasts_is_over(agent: Agent, board: Board) -> None:
    """As after an interruption, of which the client tells nobody."""
    agent.start()
    agent.hook("SubagentStart", SUBAGENT)
    long_ago = time.time() - 46 * 60
    os.utime(agent.state / "active", (long_ago, long_ago))
    # Its subagent is at work.
    child = agent.states / f"{SESSION}-{SUBAGENT}" / "active"
    (agent.state / "poke").touch()
    wait_for(lambda: not (agent.state / "poke").exists())
    assert (agent.state / "active").exists()
    os.utime(child, (long_ago, long_ago))
    wait_for(lambda: not (agent.state / "active").exists() and not child.exists())
    for _ in range(2):
        agent.bash()
        assert time.time() - (agent.state / "active").stat().st_mtime < 60
        os.utime(agent.state / "active", (long_ago, time.time() - 120))


@pytest.fixture
def lost(agent: Agent, board: Board) -> Agent:
    """An agent that has lost an item, and knows it."""
    board.add("A", id="a")
    agent.start()
    board.claim("a", session=SESSION)
    board.force_release("a", reason="needed elsewhere")
    wait_for((agent.state / "lost-a").exists)
    agent.denied(agent.bash())
    return agent


def test_a_command_in_a_sandbox_answers_a_loss(lost: Agent) -> None:
    """The sandbox keeps the state of the fence read-only, and lets commands write the answers."""
    unshare = shutil.which("unshare")
    probe = [unshare or "", "-Urm", "mount", "--bind", str(lost.states), str(lost.states)]
    if unshare is None or subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip("a mount namespace cannot be made here: it needs unshare and the right to use it")
    answers = lost.states.parent / "answers"
    read_only = f"mount --bind {lost.states} {lost.states} && mount -o remount,ro,bind {lost.states}"
    command = f"{unshare} -Urm sh -c '{read_only} && ! touch {lost.states}/x && dibs release a'"
    # Without the folder, which setup makes, nothing is answered.
    assert lost.shell(command).code == 4
    lost.denied(lost.bash())
    answers.mkdir()
    assert lost.shell(command).code == 4
    assert (answers / SESSION).read_text() == "a 1\n"
    assert lost.bash() == {}
    assert not (lost.state / "lost-a").exists()
    lost.hook("SessionEnd", reason="other")
    assert list(answers.iterdir()) == []


def test_an_answer_is_about_one_token(lost: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    from dibs.agents import state

    answers = lost.states.parent / "answers"
    answers.mkdir()
    for wrong in ("a 0", "a 2", "b 1", "a ²", "a " + "9" * 5000, "a", "\0"):
        (answers / SESSION).write_text(f"{wrong}\n")
        lost.denied(lost.bash())
    monkeypatch.setenv("XDG_STATE_HOME", str(lost.states.parent.parent))
    state.answered(SESSION, "a", 0)
    lost.denied(lost.bash())
    state.answered(SESSION, "a", 1)
    assert lost.bash() == {}


def test_removal_ends_the_keepers_of_open_sessions_and_leaves_no_state(
    agents: Callable[..., Agent], board: Board, tmp_path: Path
) -> None:
    """Their claims stay theirs until the TTL has passed: the agents may still be at work."""
    board.add("A", id="a")
    claude, codex = (agents(id, client, HOME=str(tmp_path)) for id, client in ((SESSION, "claude"), ("x-1", "codex")))
    for agent in (claude, codex):
        assert agent.shell(f"dibs setup {agent.client} --yes").code == 0
        agent.start()
    claude.hook("SubagentStart", SUBAGENT)
    board.claim("a", session=SESSION)
    keeper = claude.keeper
    shown = claude.shell("dibs setup claude --remove --yes").out
    assert f"stop renewing the claims of session {SESSION}" in shown
    wait_for_end(keeper)
    assert [folder.name for folder in claude.states.iterdir()] == ["x-1"]
    assert claude.bash() == claude.hook("UserPromptSubmit", prompt="go on") == {}
    claim = board.get("a").claim
    assert claim is not None
    assert claim.session == SESSION
    assert board.find_session(SESSION).ended_at is None
    # With the last of them, everything is gone.
    keeper = codex.keeper
    assert codex.shell("dibs setup codex --remove --yes").code == 0
    wait_for_end(keeper)
    assert not claude.states.parent.exists()


def test_two_agents_of_codex_that_start_together_have_two_names(agents: Callable[..., Agent], board: Board) -> None:
    ids = ("01a1e24a-8b3d-73c2-913f-3ce144c6bf89", "01a1e24a-8b3d-73c2-913f-3ce144c6bf90")
    for id in ids:
        agents(id, "codex").start()
    assert [board.find_session(id).agent for id in ids] == ["44c6bf89", "44c6bf90"]
    agents(OTHER_SESSION).start()
    assert board.find_session(OTHER_SESSION).agent == OTHER_SESSION[:8]


def test_a_state_is_fresh_for_no_longer_than_a_look_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more time left, the clock was set back."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state = State(SESSION)
    state.make(Record(session=SESSION, agent="x", client="claude", folder="/"))
    for seconds, is_fresh in ((FRESH_SECONDS, True), (FRESH_SECONDS + 100, False), (-100, False)):
        state.vouch(seconds)
        assert state.is_fresh() is is_fresh, seconds
