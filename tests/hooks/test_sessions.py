"""The sessions of agents: identities, owners, and their ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.board import Board
from tests.hooks.agent import OTHER_SESSION, SESSION, Agent, wait_for, wait_for_end
from tests.hooks.conftest import BOB


def holder(board: Board, item: str) -> str | None:
    claim = board.get(item).claim
    return None if claim is None else claim.session


def owner_pid(board: Board, session: str) -> int | None:
    owner = board.find_session(session).owner
    return None if owner is None else owner.pid


def test_a_start_makes_a_session_whose_owner_is_the_agent(agent: Agent, board: Board) -> None:
    board.add("Fix login", id="fix-login")
    context = agent.start()
    assert SESSION in context
    assert "1 item is ready" in context
    assert "dibs next" in context
    assert len(context) <= 800
    assert board.find_session(SESSION).agent == SESSION[:8]
    assert owner_pid(board, SESSION) == agent.process.pid
    assert agent.env_file.read_text() == f"export DIBS_SESSION={SESSION}\nexport DIBS_AGENT={SESSION[:8]}\n"
    assert agent.shell("dibs claim fix-login").code == 0
    assert holder(board, "fix-login") == SESSION
    # Somebody ended the session: the next command starts it again, as what it was.
    board.end_session(SESSION)
    assert agent.shell("dibs claim fix-login").code == 0
    assert (holder(board, "fix-login"), board.find_session(SESSION).kind) == (SESSION, "agent")
    assert oct(agent.state.stat().st_mode)[-3:] == "700"


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_name_that_no_agent_can_have_is_not_used(
    agents: Callable[..., Agent], board: Board, tmp_path: Path, is_remote: bool
) -> None:
    """Neither on the board, nor by the shell, which would run it before every command."""
    nowhere = {"DIBS_STORE": "http://127.0.0.1:1"} if is_remote else {}
    agent = agents(DIBS_AGENT=f"x'; touch {tmp_path}/pwned; '", **nowhere)
    assert f"agent {SESSION[:8]}." in agent.start()
    assert agent.shell("echo $DIBS_AGENT").out.strip() == SESSION[:8]
    assert not (tmp_path / "pwned").exists()


def test_however_long_the_ids_are_a_start_tells_how_to_take_work(agent: Agent, board: Board) -> None:
    agent.start()
    for letter in "abcdefg":
        board.add(letter, id=letter * 120)
        board.claim(letter * 120, session=SESSION)
    board.force_release("a" * 120, reason="needed elsewhere")
    wait_for((agent.state / ("lost-" + "a" * 120)).exists)
    context = agent.hook("SessionStart", source="compact")["additionalContext"]
    assert len(context) <= 800
    assert context.endswith("look for another.")
    assert f"You have lost {'a' * 120}: " in context
    assert "You hold 6 items." in context or f"You hold {'g' * 120} and 5 more." in context


def test_resume_and_compact_keep_the_identity_and_clear_and_fork_make_a_new_one(agent: Agent, board: Board) -> None:
    board.add("A", id="a")
    agent.hook("SessionStart", source="startup")
    board.claim("a", session=SESSION)
    keeper = agent.keeper
    for source in ("compact", "resume"):
        assert "You hold a." in agent.hook("SessionStart", source=source)["additionalContext"]
        assert (holder(board, "a"), agent.keeper) == (SESSION, keeper)
    # A fork goes on beside the first one.
    agent.become(OTHER_SESSION)
    agent.env_file.write_text(f"export DIBS_SESSION='{SESSION}'\n")
    assert "You hold" not in agent.hook("SessionStart", source="fork")["additionalContext"]
    assert agent.shell("echo $DIBS_SESSION").out.strip() == OTHER_SESSION
    # A clear ends the session, and its claims with it.
    agent.become(SESSION)
    agent.hook("SessionEnd", reason="resume")
    assert holder(board, "a") == SESSION
    agent.hook("SessionEnd", reason="clear")
    assert (holder(board, "a"), agent.state.exists()) == (None, False)
    assert board.find_session(SESSION).end_reason == "claude: clear"
    # Resumed after its end, it is the same session of the same agent, whatever the agent is called now.
    agent.run("export DIBS_AGENT=somebody")
    agent.hook("SessionStart", source="resume")
    assert (board.find_session(SESSION).ended_at, board.find_session(SESSION).agent) == (None, SESSION[:8])


def test_a_session_keeps_its_board_when_the_agent_has_gone_elsewhere(
    agents: Callable[..., Agent], board: Board, empty: Path, tmp_path: Path
) -> None:
    elsewhere = Path(shutil.copytree(empty, tmp_path / "elsewhere"))
    board.add("A", id="a")
    first = agents()
    first.start()
    board.claim("a", session=SESSION)
    for one, source in ((first, "compact"), (agents(), "resume")):
        one.folder = elsewhere  # as its events tell it
        assert "You hold a." in one.hook("SessionStart", source=source)["additionalContext"]
        assert "you still hold a" in one.hook("Stop", stop_hook_active=False)["reason"]
    one.hook("SessionEnd", reason="clear")
    first.hook("SessionEnd", reason="clear")
    wait_for(lambda: holder(board, "a") is None)


def test_a_session_that_another_process_resumed_is_not_ended_by_the_first(
    agents: Callable[..., Agent], board: Board
) -> None:
    board.add("A", id="a")
    first, second = agents(), agents()
    first.hook("SessionStart", source="startup")
    board.claim("a", session=SESSION)
    second.hook("SessionStart", source="resume")
    first.hook("SessionEnd", reason="other")
    assert holder(board, "a") == SESSION
    first.kill()
    assert second.bash() == {}
    assert holder(board, "a") == SESSION
    second.hook("SessionEnd", reason="other")
    assert holder(board, "a") is None


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_session_that_is_open_in_two_processes_goes_on_in_the_first_when_the_second_ends(
    agents: Callable[..., Agent], board: Board, is_killed: bool
) -> None:
    board.add("A", id="a")
    first, second = agents(), agents()
    assert "also open" not in first.start()
    board.claim("a", session=SESSION)
    assert f"also open in another process (pid {first.process.pid})" in second.start("resume")
    assert owner_pid(board, SESSION) == second.process.pid
    # A compaction in either of them changes nothing.
    for one in (first, second):
        assert "also open" in one.hook("SessionStart", source="compact")["additionalContext"]
    if is_killed:
        second.kill()
    else:
        second.hook("SessionEnd", reason="other")
    wait_for(lambda: owner_pid(board, SESSION) == first.process.pid)
    assert (holder(board, "a"), board.find_session(SESSION).ended_at) == (SESSION, None)
    board.force_release("a", reason="needed elsewhere")
    wait_for((first.state / "lost-a").exists)
    first.denied(first.bash())
    first.hook("SessionEnd", reason="other")
    assert board.find_session(SESSION).ended_at is not None


def test_the_death_of_an_agent_frees_its_items_at_once_and_leaves_nothing(agent: Agent, board: Board) -> None:
    board.add("A", id="a")
    agent.hook("SessionStart", source="startup")
    board.claim("a", session=SESSION)
    keeper = agent.keeper
    agent.kill()
    assert board.claim("a", session=BOB).claim.token == 2
    wait_for_end(keeper)
    assert not agent.state.exists()
    assert board.find_session(SESSION).ended_at is not None


def test_a_session_is_resumed_in_another_process_right_after_the_death_of_the_first(
    agents: Callable[..., Agent], board: Board
) -> None:
    board.add("A", id="a")
    first, second = agents(), agents()
    first.hook("SessionStart", source="startup")
    keeper = first.keeper
    os.kill(keeper, signal.SIGSTOP)
    first.kill()
    second.hook("SessionStart", source="resume")
    board.claim("a", session=SESSION, ttl_seconds=9)  # renewed every three seconds
    os.kill(keeper, signal.SIGCONT)
    # It finds that the session is no longer its own.
    wait_for_end(keeper)
    second.hook("UserPromptSubmit", prompt="go on")
    wait_for(lambda: (claim := board.get("a").claim) is not None and claim.heartbeat_count)
    assert board.find_session(SESSION).ended_at is None


def test_the_state_of_agents_whose_keepers_died_with_them_is_removed_by_the_next_start(
    agents: Callable[..., Agent], board: Board
) -> None:
    first, second = agents(), agents(OTHER_SESSION)
    first.hook("SessionStart", source="startup")
    for pid in (first.keeper, first.process.pid):
        os.kill(pid, 9)
    first.kill()
    assert first.state.exists()
    second.hook("SessionStart", source="startup")
    assert not first.state.exists()


def test_without_hooks_a_command_records_the_client_as_owner_only_if_it_is_above_the_command(
    agents: Callable[..., Agent], board: Board, folder: Path
) -> None:
    for item in "abc":
        board.add(item, id=item)
    claude, codex = agents(), agents(OTHER_SESSION, "codex")
    assert claude.shell("dibs claim a").code == 0
    assert codex.shell("dibs claim b").code == 0
    assert owner_pid(board, SESSION) == claude.process.pid
    assert owner_pid(board, OTHER_SESSION) == codex.process.pid
    # A variable alone proves nothing: here the process that it names runs, and is not above the command.
    inherited = {"CLAUDE_CODE_SESSION_ID": "inherited", "CLAUDE_PID": str(claude.process.pid)}
    command = [sys.executable, "-m", "dibs.cli.main", "claim", "c"]
    subprocess.run(command, cwd=folder, env=os.environ | inherited, check=True, stdout=subprocess.DEVNULL)
    assert (holder(board, "c"), owner_pid(board, "inherited")) == ("inherited", None)


def test_an_agent_that_a_worker_of_dibs_runs_stays_in_the_session_of_the_worker(
    agents: Callable[..., Agent], board: Board
) -> None:
    agent = agents(DIBS_SESSION="worker", DIBS_AGENT="coder", DIBS_CLAIM_TOKEN="1")
    assert agent.hook("SessionStart", source="startup") == {}
    assert agent.env_file.read_text() == ""
    assert [view.session.id for view in board.sessions()] == [BOB]
