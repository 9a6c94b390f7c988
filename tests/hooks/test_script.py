"""The shell part of the hooks: which tool calls it leaves to dibs. All others end there, without Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from dibs.agents import payload
from dibs.mcp.tools import BY_NAME
from tests.hooks.agent import HOOK, SESSION

SUBAGENT = "a67adc3d288542388"
THREAD = "01a1e24e-a798-74b0-be13-6adcb6999414"
#: The names of the fields for the session, the tool and its input.
CLAUDE, COPILOT = ("session_id", "tool_name", "tool_input"), ("sessionId", "toolName", "toolArgs")
BEFORE = {"gemini": "BeforeTool", "copilot": "preToolUse"}


class Script:
    """Runs the script in a shell, with a `dibs` that only says that it was asked, for sessions with a fresh state."""

    def __init__(self, shell: str, home: Path) -> None:
        self._shell, self._home = shell, home
        self.states = home / "state" / "dibs" / "agents"
        for session in (SESSION, f"{SESSION}-{SUBAGENT}", THREAD):
            (self.states / session).mkdir(parents=True)
            self.vouch(session)
        self._dibs = home / "bin" / "dibs"
        self._dibs.parent.mkdir()
        self.replace_dibs("[ $LC_ALL = C.UTF-8 ] && echo '{\"asked\": true}'")

    def vouch(self, session: str, seconds: int = 80) -> None:
        (self.states / session / "until").write_text(f"{int(time.time()) + seconds}\n")

    def replace_dibs(self, program: str) -> None:
        self._dibs.write_text(f"#!/bin/sh\n{program}\n")
        self._dibs.chmod(0o755)

    def asks(self, tool: str, command: str = "make", *, client: str = "claude", event: str = "", **head: str) -> bool:
        session, name, input = COPILOT if client == "copilot" else CLAUDE
        given = {session: SESSION, **head, name: tool, input: {"command": command}}
        code, out, err = self.run(event or BEFORE.get(client, "PreToolUse"), client, given)
        assert (code, out, err) in ((0, '{"asked": true}\n', ""), (0, "", ""))
        return bool(out)

    def run(
        self, event: str, client: str = "claude", given: dict[str, Any] | None = None, **variables: str
    ) -> tuple[int, str, str]:
        """The exit code and what the script prints."""
        payload = given or {"session_id": SESSION, "tool_name": "Bash", "tool_input": {"command": "make"}}
        done = subprocess.run(
            [self._shell, str(HOOK), event, client, str(self._dibs)],
            input=json.dumps(payload, separators=(",", ":")),
            env={"XDG_STATE_HOME": str(self._home / "state"), "PATH": os.defpath, "LC_ALL": "C.UTF-8", **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(params=["sh", "bash"])
def script(request: pytest.FixtureRequest, tmp_path: Path) -> Script:
    shell: str = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} on this machine")
    return Script(shell, tmp_path)


def test_it_knows_the_tools_that_dibs_knows(script: Script) -> None:
    assert all(script.asks(tool) for tool in payload.EDITS)
    assert all(script.asks(tool) for tool in payload.TASK_TOOLS_BEFORE)
    assert all(script.asks(tool, event="PostToolUse") for tool in payload.TASK_TOOLS_AFTER)
    assert not any(script.asks(tool) for tool in payload.SHELLS)
    assert all(script.asks(payload.PLUGIN_TOOLS + name) for name in BY_NAME)
    for client, starts in payload.OUR_TOOLS.items():
        assert all(script.asks(f"{start}claim", client=client) for start in starts), client
    (script.states / SESSION / "until").write_text("1\n")
    assert all(script.asks(tool) for tool in payload.SHELLS)
    for foreign in ("Read", "mcp__dibs__evil__run", "mcp__dibs__claims", "mcp__plugin_dibs_dibs__x__claim", "dibs-x"):
        assert not script.asks(foreign), foreign


def test_a_command_starts_python_only_if_it_may_be_a_call_of_dibs(script: Script) -> None:
    elsewhere = ["grep -r dibs .", "ls /home/me/dibs", "cd /src/dibs && make", "cat dibs.toml", "echo 'dibs next'"]
    calls = ["cd . && dibs claim a", "make\ndibs next", "/opt/bin/dibs who", "(dibs next)", "x=$(calldibs next)"]
    assert script.asks("Bash", "dibs next")
    assert script.asks("Bash", "calldibs done a --note x")
    # The shell of the agent has its session.
    for command in elsewhere + calls:
        assert not script.asks("Bash", command), command
    for command in calls:
        assert script.asks("Bash", command, agent_id=SUBAGENT), command
        assert script.asks("run_shell_command", command, client="gemini"), command
        assert not script.asks("Bash", command, client="codex", agent_id=THREAD), command
    for command in ("cat dibs.toml", "ls /home/me/dibs/src", "make dibs-test", "python -m dibs.x", "ls mydibs"):
        assert not script.asks("Bash", command, agent_id=SUBAGENT), command


def test_a_patch_in_a_command_is_left_to_dibs(script: Script) -> None:
    assert script.asks("exec_command", "cd src && apply_patch <<'EOF'\n*** Begin Patch", client="codex")


def test_a_state_that_is_vouched_for_longer_than_any_keeper_does_is_not_fresh(script: Script) -> None:
    """The clock was set back."""
    for seconds, is_fresh in ((80, True), (1000, False), (-1000, False)):
        script.vouch(SESSION, seconds)
        assert script.asks("Bash") is not is_fresh, seconds


def test_a_loss_leaves_commands_to_dibs_and_nothing_after_them(script: Script) -> None:
    (script.states / SESSION / "lost-a").write_text("{}")
    assert script.asks("Bash")
    assert script.asks("Bash", agent_id=SUBAGENT)
    assert not script.asks("Read")
    for event in ("PostToolUse", "PostToolUseFailure"):
        assert not script.asks("Bash", "dibs release a", event=event)


def test_a_dibs_that_has_no_hooks_changes_nothing(script: Script) -> None:
    """An older one, or another program of that name: exit code 2 would deny, and text on stdout would be context."""
    (script.states / SESSION / "until").write_text("1\n")
    for said, code in (("unknown command hook", 2), ("not JSON", 0), ('{"a": 1}', 1)):
        script.replace_dibs(f"echo '{said}'; echo '{said}' >&2; exit {code}")
        for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SubagentStop", "TaskCompleted"):
            assert script.run(event) == (0, "", ""), (said, event)
    script.replace_dibs("echo 'dibs: a is offered to you' >&2; exit 2")
    assert script.run("Wake", DIBS_WAKE="on") == (2, "", "dibs: a is offered to you\n")
