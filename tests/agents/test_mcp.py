"""Real agents call the tools of `dibs mcp`, and act as the session that their own commands act as."""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

import pytest

from dibs.board import Board, connect
from tests.agents.conftest import client
from tests.kit.agents import claude as claude_steps
from tests.kit.agents import codex as codex_steps
from tests.kit.agents import script
from tests.kit.agents.claude import Claude
from tests.kit.agents.codex import Codex
from tests.kit.agents.model import Model
from tests.kit.agents.others import Copilot, Gemini, Other
from tests.kit.waiting import until

in_a_soak = pytest.mark.skipif(not os.environ.get("DIBS_SOAK"), reason="other agents, and more of claude: in a soak")
SERVER = [sys.executable, "-m", "dibs.cli.main", "mcp"]


def test_claude_does_an_item_through_the_tools(claude: Claude, project: Path, tmp_path: Path) -> None:
    board = _board(project)
    steps = [
        script.call("mcp__dibs__next", {}),
        claude_steps.shell("dibs progress a 'half way' --brief"),
        script.call("mcp__dibs__done", {"item": "a", "note": "by a tool"}),
        script.call("mcp__dibs__claim", {"item": "b"}),
        script.after("held", "done"),
    ]
    with claude.start(project, steps, *_configured(tmp_path)) as agent:
        agent.await_pause("held")
        claimed, noted, done, _ = map(json.loads, agent.results)
        assert claimed["data"] == {"title": "The first"}
        assert (noted["item"], done["status"]) == ("a", "done")
        (claim,) = [line.claim for line in board.who()]
        assert claim is not None
        assert (claim.session, claim.agent) == (agent.session_id, "claude")
        owner = board.find_session(agent.session_id).owner
        assert owner is not None
        assert owner.pid == agent.pid
        assert any("dibs is the work board" in text for text in agent.requests[-1].texts)
        agent.go_on("held")
        assert agent.finish() == 0
    assert board.get("b").item.status == "ready"
    board.close()


def test_codex_does_an_item_through_the_tools(codex: Codex, project: Path) -> None:
    board = _board(project)
    steps = [
        script.call("mcp__dibs.next", {}),
        codex_steps.shell("dibs progress a 'half way' --brief"),
        script.call("mcp__dibs.done", {"item": "a", "note": "by a tool"}),
        "done",
    ]
    with codex.start(project, steps, *_options()) as agent:
        assert agent.wait() == 0, agent.complaints
        assert '"claimed":"a"' in agent.results[0]
        assert '"status":"done"' in agent.results[2]
        (run,) = board.get("a").runs
        assert (run.session, run.agent, run.reason) == (agent.session_id, "codex", "by a tool")
    board.close()


@in_a_soak
def test_gemini_calls_the_tools(model: Model, project: Path, tmp_path: Path) -> None:
    gemini = client(Gemini, model, tmp_path)
    settings = gemini.home / ".gemini" / "settings.json"
    server = {"command": SERVER[0], "args": SERVER[1:], "trust": True}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "mcpServers": {"dibs": server}}))
    _claims_by_a_tool(gemini, project, "mcp_dibs_next", "gemini")


@in_a_soak
def test_copilot_calls_the_tools(model: Model, project: Path, tmp_path: Path) -> None:
    copilot = client(Copilot, model, tmp_path)
    (copilot.home / ".copilot").mkdir()
    server = {"type": "local", "command": SERVER[0], "args": SERVER[1:], "tools": ["*"]}
    (copilot.home / ".copilot" / "mcp-config.json").write_text(json.dumps({"mcpServers": {"dibs": server}}))
    _claims_by_a_tool(copilot, project, "dibs-next", "copilot")


def _claims_by_a_tool(other: Other, project: Path, tool: str, name: str) -> None:
    board = _board(project)
    with other.start(project, [script.call(tool, {}), "done"]) as agent:
        assert agent.wait() == 0, agent.complaints
        assert any("claimed" in str(request.results) for request in agent.requests), agent.requests
    (run,) = board.get("a").runs
    assert run.agent == name
    # Copilot kills its servers; then the death of the client frees the item.
    assert run.outcome in ("released", "owner_died")
    board.close()


#: A line of `dibs prime`, without its explanation, and the id in the answer to `dibs next`.
LINE, CLAIMED = r"(?m)^(dibs %s\b.*?)(?:  |$)", r'"claimed": ?"([^"]+)"'


def test_a_model_that_knows_only_prime_does_an_item(claude: Claude, project: Path) -> None:
    """The model types `dibs prime`, then lines that it reads there, with the id that it is given."""
    board = connect(str(project / ".git" / "dibs" / "board.db"), create=True)
    id = board.add("The first").id
    typed = claude_steps.shell("TYPED")
    steps = [
        claude_steps.shell("dibs prime"),
        script.filled(typed, TYPED=LINE % "next"),
        script.filled(typed, TYPED=LINE % "progress", ID=CLAIMED),
        script.filled(typed, TYPED=LINE % "done", ID=CLAIMED),
        "done",
    ]
    with claude.start(project, steps) as agent:
        agent.await_turn()
        calls = [request.step["calls"][0]["arguments"]["command"] for request in agent.requests[1:4]]
        assert calls == ["dibs next --brief", f'dibs progress {id} "note"', f'dibs done {id} --note "..."']
        assert agent.finish() == 0
    (run,) = board.get(id).runs
    assert (run.outcome, run.session, run.reason) == ("done", agent.session_id, "...")
    assert [note.note for note in board.get(id).notes] == ["note"]
    board.close()


@in_a_soak
def test_claude_offers_its_model_nothing_until_there_is_a_board(claude: Claude, project: Path, tmp_path: Path) -> None:
    with claude.start(project, ["done"], *_configured(tmp_path)) as agent:
        agent.await_turn()
        assert "mcp__dibs" not in json.dumps(agent.requests[-1].body)
        assert "dibs is the work board" not in json.dumps(agent.requests[-1].body)
        assert [server["status"] for server in agent.lines[0]["mcp_servers"]] == ["connected"]
        _board(project).close()
        turns = itertools.count(2)

        def is_offered() -> bool:
            agent.prompt(["done"])
            agent.await_turn(next(turns))
            return "mcp__dibs__next" in json.dumps(agent.requests[-1].body)

        until(is_offered)
        assert agent.finish() == 0


@in_a_soak
def test_codex_offers_its_model_nothing_where_there_is_no_board(codex: Codex, project: Path) -> None:
    with codex.start(project, ["done"], *_options()) as agent:
        assert agent.wait() == 0, agent.complaints
        assert "dibs" not in json.dumps(agent.requests[-1].body.get("tools"))
        assert "dibs is the work board" not in json.dumps(agent.requests[-1].body)


def _configured(folder: Path) -> list[str]:
    """The server as a person configures it in Claude Code."""
    config = {"mcpServers": {"dibs": {"command": SERVER[0], "args": SERVER[1:]}}}
    (folder / "mcp.json").write_text(json.dumps(config))
    return ["--mcp-config", str(folder / "mcp.json")]


def _options() -> list[str]:
    """The same in Codex."""
    options = ["-c", f"mcp_servers.dibs.command={json.dumps(SERVER[0])}"]
    return [*options, "-c", f"mcp_servers.dibs.args={json.dumps(SERVER[1:])}", "-c", 'approval_policy="never"']


def _board(project: Path) -> Board:
    board = connect(str(project / ".git" / "dibs" / "board.db"), create=True)
    board.add("The first", id="a")
    board.add("The second", id="b")
    return board
