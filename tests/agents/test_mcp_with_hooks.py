"""Real agents with the hooks of dibs and its tools: each call acts as the session of the agent that makes it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from dibs.board import Board
from tests.agents.conftest import client
from tests.agents.fleet import holder
from tests.kit.agents.claude import ASK, Claude, subagent
from tests.kit.agents.codex import Codex
from tests.kit.agents.model import Model
from tests.kit.agents.others import Copilot, Gemini, Opencode, Other
from tests.kit.agents.script import after, call, together

PLUGIN = Path(__file__).parents[2] / "plugins" / "dibs"
#: Claude Code starts a server of a plugin only if no other one has the same command.
SERVER, OTHER = ({"command": sys.executable, "args": [*given, "-m", "dibs.cli.main", "mcp"]} for given in ([], ["-P"]))
OURS, CONFIGURED, FOREIGN = "mcp__plugin_dibs_dibs__claim", "mcp__dibs__claim", "mcp__dibs__evil__claim"


@pytest.mark.nightly
def test_claude_calls_the_tools_as_itself_and_asks_about_servers_that_the_plugin_does_not_bring(
    claude: Claude, project: Path, board: Board, tmp_path: Path
) -> None:
    for item in "abcde":
        board.add(item, id=item)
    plugin = shutil.copytree(PLUGIN, tmp_path / "dibs")
    (plugin / ".mcp.json").write_text(json.dumps({"mcpServers": {"dibs": SERVER}}))
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"dibs": OTHER, "dibs__evil": OTHER}}))
    work = [[after(f"claim {n}", call(OURS, {"item": "c"})), after(f"claimed {n}", "done")] for n in "12"]
    steps = [
        call(OURS, {"item": "a", "session": "bob-1"}),
        call(CONFIGURED, {"item": "b", "session": "bob-1"}),
        call(FOREIGN, {"item": "d"}),
        together(*map(subagent, work)),
        *("I stop", "I stop"),
    ]
    options = ("--plugin-dir", str(plugin), "--mcp-config", str(tmp_path / "mcp.json"))
    with claude.start(project, steps, *options, permissions=ASK) as agent:
        asked = [agent.await_question(1, allow=True), agent.await_question(2, allow=False)]
        assert [question["tool_name"] for question in asked] == [CONFIGURED, FOREIGN]
        me = agent.session_id
        assert asked[0]["input"] == {"item": "b", "session": me}
        for n in "12":
            agent.await_pause(f"claim {n}")
        for n in "12":
            agent.go_on(f"claim {n}")
        for n in "12":
            agent.await_pause(f"claimed {n}")
            assert (holder(board, "a"), holder(board, "b"), holder(board, "d")) == (me, me, None)
        winner = holder(board, "c")
        assert winner is not None
        assert board.find_session(winner).parent == me
        assert f"already claimed by {me[:8]} (session {winner})" in str(agent.requests)
        for n in "12":
            agent.go_on(f"claimed {n}")
        agent.await_turn(1)
        agent.prompt("/clear")
        agent.await_turn(2)
        agent.prompt([call(OURS, {"item": "e"}), "I stop", "I stop"])
        agent.await_turn(3)
        assert (holder(board, "e"), agent.session_id != me) == (agent.session_id, True)
        assert len(agent.questions) == 2
        assert agent.finish() == 0


def test_codex_calls_the_tools_as_itself(codex: Codex, project: Path, board: Board) -> None:
    board.add("A", id="a")
    codex.dibs("setup", "codex", "--yes", folder=project)
    options = [f"mcp_servers.dibs.{name}={json.dumps(value)}" for name, value in SERVER.items()]
    steps = [
        call("mcp__dibs.claim", {"item": "a", "session": "bob-1"}),
        call("mcp__dibs.claim", {"item": "a"}),
        *(after("claimed", "I stop"), "I stop"),
    ]
    with codex.start(project, steps, *(word for one in options for word in ("-c", one))) as agent:
        agent.await_pause("claimed")
        assert f"you are session {agent.session_id}; call it again without" in agent.results[0]
        assert [run.session for run in board.runs(item="a")] == [agent.session_id]
        agent.go_on("claimed")
        assert agent.finish() == 0


@pytest.mark.soak
@pytest.mark.parametrize("kind", [Gemini, Copilot, Opencode], ids=lambda kind: str(kind.kind))
def test_other_clients_call_the_tools_as_themselves(
    kind: type[Other], model: Model, project: Path, board: Board, tmp_path: Path
) -> None:
    board.add("A", id="a")
    other = client(kind, model, tmp_path)
    other.dibs("setup", kind.kind, "--yes", folder=project)
    tool = OTHERS[kind](other.home)
    with other.start(project, [call(tool, {"item": "a", "session": "bob-1"}), "I stop", "I stop"]) as agent:
        assert agent.wait() == 0, agent.complaints
    (run,) = board.runs(item="a")
    assert board.find_session(run.session).meta["client"] == kind.kind


def _gemini(home: Path) -> str:
    settings = home / ".gemini" / "settings.json"
    servers = {"mcpServers": {"dibs": {**SERVER, "trust": True}}}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **servers}))
    return "mcp_dibs_claim"


def _copilot(home: Path) -> str:
    servers = {"mcpServers": {"dibs": {"type": "local", **SERVER, "tools": ["*"]}}}
    (home / ".copilot" / "mcp-config.json").write_text(json.dumps(servers))
    return "dibs-claim"


def _opencode(home: Path) -> str:
    server = {"type": "local", "command": [SERVER["command"], *SERVER["args"]]}
    (home / ".config" / "opencode" / "opencode.json").write_text(json.dumps({"mcp": {"dibs": server}}))
    return "dibs_claim"


#: How a server is configured in each client; returns what the client calls its tool.
OTHERS = {Gemini: _gemini, Copilot: _copilot, Opencode: _opencode}
