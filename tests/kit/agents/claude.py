"""Claude Code. Its sessions take prompts on standard input, as those of the Agent SDK do: so one process can be given
several, rests between them, and asks for permissions on standard output.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kit.agents import script
from tests.kit.agents.client import Client
from tests.kit.agents.process import Agent, TerminalAgent
from tests.kit.agents.script import Json, Step

API_KEY = "scripted"
STREAMS = ("--print", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json")
#: Nobody is asked, as in a fleet.
BYPASS = "bypassPermissions"
#: What may change something is asked for: see `ClaudeAgent.await_question`.
ASK = "manual"
#: The variables with which it has tasks of its own, in a list that sessions share.
TASKS = {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1", "CLAUDE_CODE_TASK_LIST_ID": "shared"}
#: The variable with which `Agent` starts teammates, on a terminal.
TEAMS = {"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1"}


def shell(command: str) -> Step:
    return script.call("Bash", {"command": command, "description": "as scripted"})


def write(path: Path, content: str) -> Step:
    return script.call("Write", {"file_path": str(path), "content": content})


def subagent(steps: Sequence[Step], *, background: bool = False) -> Step:
    """One in the background outlives the turn; the client reports its end in a prompt of its own."""
    return _agent(steps, run_in_background=background)


def teammate(name: str, steps: Sequence[Step]) -> Step:
    return _agent(steps, name=name, team_name="crew")


def _agent(steps: Sequence[Step], **more: Any) -> Step:
    given = {"description": "scripted", "prompt": script.prompt(steps), "subagent_type": "general-purpose"}
    return script.call("Agent", {**given, **more})


class ClaudeAgent(Agent):
    @property
    def session_id(self) -> str:
        """That of the newest prompt: `/clear` changes it."""
        self.await_line(_begins_turn)
        return str([line for line in self.lines if _begins_turn(line)][-1]["session_id"])

    @property
    def transcript(self) -> list[Json]:
        """The file that the client keeps of the session."""
        (path,) = (self.home / ".claude" / "projects").glob(f"*/{self.session_id}.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def prompt(self, given: Sequence[Step] | str) -> None:
        """A script, or a text such as `/clear` or `/compact`."""
        text = given if isinstance(given, str) else script.prompt(given)
        self.write_line(json.dumps({"type": "user", "message": {"role": "user", "content": text}}))

    def await_turn(self, count: int = 1) -> Json:
        """How that turn ended, counted from 1. A turn is the work on one prompt."""
        return self.await_line(lambda line: line["type"] == "result", count)

    @property
    def questions(self) -> list[Json]:
        """What it asked the person's permission for: `tool_name`, `input` and more."""
        return [line["request"] for line in self.lines if _asks(line)]

    def await_question(self, count: int, *, allow: bool) -> Json:
        """Wait for that question, counted from 1, and answer it as the person."""
        asked = self.await_line(_asks, count)
        question: Json = asked["request"]
        verdict = (
            {"behavior": "allow", "updatedInput": question["input"]}
            if allow
            else {"behavior": "deny", "message": "the person said no"}
        )
        response = {"subtype": "success", "request_id": asked["request_id"], "response": verdict}
        self.write_line(json.dumps({"type": "control_response", "response": response}))
        return question


class Claude(Client):
    kind = "claude"
    shell = staticmethod(shell)
    write = staticmethod(write)

    def use_hooks(self, hooks: Json) -> None:
        """As the person's own, for every session from now on."""
        settings = self.home / ".claude" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(json.dumps({"hooks": hooks}))

    def install(self, marketplace: Path, plugin: str) -> None:
        """`PLUGIN@MARKETPLACE`, as a person does. Quicker, for one session: `start` with `--plugin-dir`."""
        self.command("plugin", "marketplace", "add", str(marketplace))
        self.command("plugin", "install", plugin)

    def start(
        self,
        project: Path,
        steps: Sequence[Step],
        *options: str,
        permissions: str = BYPASS,
        resume: str | None = None,
        fork: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> ClaudeAgent:
        """A session that has its first prompt; `resume` is the id of an earlier one."""
        words = [*STREAMS, "--permission-mode", permissions, *options]
        words += ["--permission-prompt-tool", "stdio"] if permissions == ASK else []
        words += ["--resume", resume] if resume else []
        words += ["--fork-session"] if fork else []
        agent = self._run(ClaudeAgent, self._next_name(), words, project, environment)
        agent.prompt(steps)
        return agent

    def start_terminal(
        self, project: Path, steps: Sequence[Step], *options: str, environment: Mapping[str, str] | None = None
    ) -> TerminalAgent:
        """As a person starts it, for what works only so: teams. It asks other hosts for news, and is refused."""
        accepted = {
            "hasCompletedOnboarding": True,
            "bypassPermissionsModeAccepted": True,
            "customApiKeyResponses": {"approved": [API_KEY], "rejected": []},
            "projects": {str(project): {"hasTrustDialogAccepted": True}},
        }
        (self.home / ".claude.json").write_text(json.dumps(accepted))
        words = ["--permission-mode", BYPASS, *options, script.prompt(steps)]
        return self._run(TerminalAgent, self._next_name(), words, project, environment)

    def _environment(self, agent: str) -> dict[str, str]:
        return {
            **super()._environment(agent),
            "ANTHROPIC_BASE_URL": f"{self.model.url}/{agent}",
            "ANTHROPIC_API_KEY": API_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            # Root may skip permissions only inside of a sandbox.
            **({"IS_SANDBOX": "1"} if os.geteuid() == 0 else {}),
        }


def _begins_turn(line: Json) -> bool:
    return bool(line["type"] == "system" and line["subtype"] == "init")


def _asks(line: Json) -> bool:
    return bool(line["type"] == "control_request" and line["request"]["subtype"] == "can_use_tool")
