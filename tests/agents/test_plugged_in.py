"""Real clients, connected by `dibs setup` or with the plugin installed by their own commands: their hooks run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dibs.board import Board, connect
from tests.agents.conftest import client
from tests.kit.agents import claude as claude_steps
from tests.kit.agents import codex as codex_steps
from tests.kit.agents import script
from tests.kit.agents.claude import Claude
from tests.kit.agents.client import Client
from tests.kit.agents.codex import NO_SANDBOX, SANDBOX, Codex
from tests.kit.agents.model import Model
from tests.kit.agents.others import Copilot, Gemini, Opencode, Other
from tests.kit.agents.process import Agent

TOP = Path(__file__).resolve().parents[2]
#: What the hook of a session's start tells the model.
CONTEXT = "shared board of work items"
#: A call of the MCP server that setup and the plugin bring.
CODEX_NOTE = script.call("mcp__dibs.progress", {"item": "fix-login", "note": "by a tool"})


@pytest.fixture
def board(project: Path) -> Board:
    dibs("init", folder=project, home=project.parent)
    dibs("add", "Fix login", "--id", "fix-login", folder=project, home=project.parent)
    return connect(str(project / ".git" / "dibs" / "board.db"))


def dibs(*words: str, folder: Path, home: Path) -> str:
    """Run `dibs` as the person whose home this is."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "dibs"), *words],
        cwd=folder,
        env={"HOME": str(home), "PATH": os.defpath, "DIBS_AGENT": "alice"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def setup(client: Client, project: Path, *words: str) -> None:
    dibs("setup", client.kind, "--yes", *words, folder=project, home=client.home)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def model_read(agent: Agent, text: str) -> bool:
    return any(text in json.dumps(request.body) for request in agent.requests)


def noted(board: Board, session: str) -> list[str]:
    """The notes of this session's progress on the item."""
    events = board.events(item="fix-login", limit=100)
    return [event.data["note"] for event in events if (event.kind, event.session) == ("progress", session)]


@pytest.mark.parametrize("folder", [TOP, TOP / "plugins" / "dibs"], ids=["marketplace", "plugin"])
def test_claude_finds_nothing_wrong_with_the_plugin(claude: Claude, folder: Path) -> None:
    assert "Validation passed" in claude.command("plugin", "validate", "--strict", str(folder))


def test_a_session_of_claude_claims_and_its_end_releases(claude: Claude, project: Path, board: Board) -> None:
    setup(claude, project)
    note = script.call("mcp__plugin_dibs_dibs__progress", {"item": "fix-login", "note": "by a tool"})
    with claude.start(project, [claude_steps.shell("dibs next"), note, "done"]) as agent:
        agent.await_turn()
        assert model_read(agent, CONTEXT)
        assert model_read(agent, "claimed fix-login"), agent.results
        assert noted(board, agent.session_id) == ["by a tool"], agent.results
        assert board.find_session(agent.session_id).agent == agent.session_id[:8]
        assert agent.finish() == 0
    (run,) = board.runs(item="fix-login")
    assert (run.session, run.outcome) == (agent.session_id, "released")
    before = (claude.home / ".claude" / "settings.json").read_text()
    assert "dibs@dibs" in before
    setup(claude, project, "--remove")
    assert [path for path in (claude.home / ".claude").rglob("*.json") if "dibs@dibs" in path.read_text()] == []
    with claude.start(project, [claude_steps.shell("echo hello"), "done"]) as agent:
        agent.await_turn()
        assert not model_read(agent, CONTEXT)


def test_a_session_of_codex_claims_in_its_sandbox(codex: Codex, project: Path, board: Board) -> None:
    why_not = codex.why_no_sandbox()
    setup(codex, project)
    steps = [codex_steps.shell("dibs next"), CODEX_NOTE, codex_steps.shell("dibs done fix-login"), "done"]
    with codex.start(project, steps, sandbox=NO_SANDBOX if why_not else SANDBOX) as agent:
        assert agent.wait() == 0, agent.complaints
        assert model_read(agent, CONTEXT)
        assert model_read(agent, "claimed fix-login"), agent.results
    assert noted(board, agent.session_id) == ["by a tool"], agent.results
    (run,) = board.runs(item="fix-login")
    assert (run.session, run.outcome) == (agent.session_id, "done")
    if why_not:
        pytest.skip(f"shown without a sandbox only: {why_not}")


def test_codex_calls_no_hook_of_dibs_a_failed_one(codex: Codex, project: Path, board: Board) -> None:
    setup(codex, project)
    printed = codex.printed(project, [codex_steps.shell("dibs next"), codex_steps.shell("dibs done fix-login"), "done"])
    assert "hook: PreToolUse Completed" in printed
    assert "Failed" not in printed
    (run,) = board.runs(item="fix-login")
    assert run.outcome == "done"


def test_codex_installs_the_plugin_of_claude(codex: Codex, project: Path, board: Board) -> None:
    codex.install(TOP, "dibs@dibs")
    with codex.start(project, [codex_steps.shell("dibs next"), CODEX_NOTE, "done"]) as agent:
        assert agent.wait() == 0, agent.complaints
        assert model_read(agent, CONTEXT)
        assert model_read(agent, "claimed fix-login"), agent.results
    assert noted(board, agent.session_id) == ["by a tool"], agent.results


@pytest.mark.soak
@pytest.mark.parametrize("kind", [Gemini, Copilot, Opencode], ids=lambda kind: str(kind.kind))
def test_other_clients_run_the_hooks_that_setup_gave_them(
    kind: type[Other], model: Model, project: Path, board: Board, tmp_path: Path
) -> None:
    other = client(kind, model, tmp_path)
    before = snapshot(other.home)
    setup(other, project)
    with other.start(project, [other.shell("dibs next; dibs done fix-login"), "done"]) as agent:
        assert agent.wait() == 0, agent.complaints
        assert model_read(agent, CONTEXT)
        assert model_read(agent, "claimed fix-login"), agent.requests
        assert any(re.search(r'"(mcp_)?dibs[-_]next"', json.dumps(request.body)) for request in agent.requests)
    (run,) = board.runs(item="fix-login")
    assert (run.outcome, board.find_session(run.session).meta["client"]) == ("done", other.kind)
    setup(other, project, "--remove")
    after = snapshot(other.home)
    assert {path: text for path, text in after.items() if "dibs" in path or path in before} == before
    assert [path for path, text in after.items() if path.endswith(".json") and b'bin/dibs"' in text] == []
    assert {"opencode.json", "mcp-config.json"}.isdisjoint(Path(path).name for path in after)


def test_the_script_finds_the_dibs_that_it_was_installed_with(tmp_path: Path) -> None:
    """Beside the packages of its interpreter, whatever the PATH is, and also where a person linked to it."""
    hooks = tmp_path / "venv/lib/python3/site-packages/dibs/plugin/plugins/dibs/hooks"
    hooks.mkdir(parents=True)
    shutil.copy(TOP / "plugins/dibs/hooks/dibs-hook.sh", hooks)
    command = tmp_path / "venv/bin/dibs"
    command.parent.mkdir()
    command.write_text("""#!/bin/sh\necho "{\\"ours\\": \\"$*\\"}"\n""")
    command.chmod(0o755)
    done = subprocess.run(
        ["sh", str(hooks / "dibs-hook.sh"), "SessionStart"],
        input=json.dumps({"session_id": "s"}),
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == '{"ours": "hook SessionStart"}\n'
