"""The sessions of agents: identities, owners, subagents, and their ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.agents.agent import OTHER_SESSION, SESSION, Agent
from tests.agents.conftest import Dibs


def sessions(board: Dibs) -> dict[str, Any]:
    """All sessions by id."""
    return {line["session"]["id"]: line["session"] for line in board.json("sessions", "--all")["sessions"]}


def holder(board: Dibs, item: str) -> str | None:
    claim = board.json("show", item)["claim"]
    return None if claim is None else str(claim["session"])


def test_a_start_makes_a_session_whose_owner_is_the_agent(agent: Agent, board: Dibs) -> None:
    board.ok("add", "Fix login", "--id", "fix-login")
    context = agent.start()
    assert SESSION in context
    assert "1 item is ready" in context
    assert "dibs next" in context
    assert len(context) <= 800
    made = sessions(board)[SESSION]
    assert (made["agent"], made["owner"]["pid"]) == (SESSION[:8], agent.process.pid)
    assert agent.env_file.read_text() == f"export DIBS_SESSION='{SESSION}'\nexport DIBS_AGENT='{SESSION[:8]}'\n"
    assert agent.shell("dibs claim fix-login").code == 0
    assert holder(board, "fix-login") == SESSION
    assert oct(agent.state.stat().st_mode)[-3:] == "700"


def test_resume_and_compact_keep_the_identity_and_clear_and_fork_make_a_new_one(agent: Agent, board: Dibs) -> None:
    board.ok("add", "A", "--id", "a")
    agent.start()
    agent.shell("dibs claim a")
    keeper = agent.keeper
    for source in ("compact", "resume"):
        assert "You hold a." in agent.start(source)
        assert (holder(board, "a"), agent.keeper) == (SESSION, keeper)
    # A fork goes on beside the first one.
    agent.become(OTHER_SESSION)
    agent.env_file.write_text(f"export DIBS_SESSION='{SESSION}'\n")
    assert "You hold" not in agent.start("fork")
    assert agent.shell("echo $DIBS_SESSION").out.strip() == OTHER_SESSION
    assert agent.shell("dibs claim a").code == 4
    # A clear ends the session, and its claims with it.
    agent.become(SESSION)
    agent.hook("SessionEnd", reason="resume")
    assert holder(board, "a") == SESSION
    agent.hook("SessionEnd", reason="clear")
    assert (holder(board, "a"), agent.state.exists()) == (None, False)
    assert sessions(board)[SESSION]["end_reason"] == "claude: clear"
    # Resumed after its end, it is the same session of the same agent, whatever the agent is called now.
    agent.run("export DIBS_AGENT=somebody")
    agent.start("resume")
    assert (sessions(board)[SESSION]["ended_at"], sessions(board)[SESSION]["agent"]) == (None, SESSION[:8])


def test_a_session_that_another_process_resumed_is_not_ended_by_the_first(
    agents: Callable[..., Agent], board: Dibs
) -> None:
    board.ok("add", "A", "--id", "a")
    first, second = agents(), agents()
    first.start()
    first.shell("dibs claim a")
    second.start("resume")
    first.hook("SessionEnd", reason="other")
    assert holder(board, "a") == SESSION
    first.process.kill()
    first.process.wait()
    assert second.bash() == {}
    assert holder(board, "a") == SESSION
    second.hook("SessionEnd", reason="other")
    assert holder(board, "a") is None


def test_the_death_of_an_agent_frees_its_items_at_once_and_leaves_nothing(agent: Agent, board: Dibs) -> None:
    board.ok("add", "A", "--id", "a")
    agent.start()
    agent.shell("dibs claim a")
    agent.process.kill()
    agent.process.wait()
    board.ok("claim", "a")
    agent.kill()
    assert not agent.state.exists()
    assert sessions(board)[SESSION]["ended_at"] is not None


def test_without_hooks_a_command_records_the_client_as_owner_only_if_it_is_above_the_command(
    agents: Callable[..., Agent], board: Dibs
) -> None:
    board.ok("add", "A", "--id", "a")
    board.ok("add", "B", "--id", "b")
    claude, codex = agents(), agents(OTHER_SESSION, "codex")
    assert claude.shell("dibs claim a").code == 0
    assert codex.shell("dibs claim b").code == 0
    owners = {id: session["owner"] for id, session in sessions(board).items()}
    assert owners[SESSION]["pid"] == claude.process.pid
    assert owners[OTHER_SESSION]["pid"] == codex.process.pid
    # A variable alone proves nothing: here the process that it names runs, and is not above the command.
    inherited = {"CLAUDE_CODE_SESSION_ID": "inherited", "CLAUDE_PID": str(claude.process.pid), "DIBS_SESSION": ""}
    board.ok("add", "C", "--id", "c")
    board.ok("claim", "c", environment=inherited)
    assert sessions(board)["inherited"]["owner"] is None


def test_an_agent_that_a_worker_of_dibs_runs_stays_in_the_session_of_the_worker(
    agents: Callable[..., Agent], board: Dibs
) -> None:
    agent = agents(DIBS_SESSION="worker", DIBS_AGENT="coder", DIBS_CLAIM_TOKEN="1")
    assert agent.start() == ""
    assert agent.env_file.read_text() == ""
    assert SESSION not in sessions(board)
