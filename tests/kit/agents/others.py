"""The agents of the soak: one process works on one prompt, and nobody is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kit.agents import script
from tests.kit.agents.client import Client
from tests.kit.agents.model import Model
from tests.kit.agents.process import Agent
from tests.kit.agents.script import Step

GEMINI_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
}


class Other(Client):
    #: Its tool that runs a command.
    shell_tool: str
    words: tuple[str, ...]
    #: Its words end with the prompt; else it reads the prompt from standard input.
    takes_prompt_as_word = True

    def shell(self, command: str) -> Step:
        return script.call(self.shell_tool, {"command": command, "description": "as scripted"})

    def start(
        self, project: Path, steps: Sequence[Step], *options: str, environment: Mapping[str, str] | None = None
    ) -> Agent:
        prompt = script.prompt(steps)
        words = [*options, *self.words, *([prompt] if self.takes_prompt_as_word else [])]
        agent = self._run(Agent, self._next_name(), words, project, environment)
        if not self.takes_prompt_as_word:
            agent.write_line(prompt)
        agent.close_stdin()
        return agent


class Copilot(Other):
    kind = "copilot"
    shell_tool = "bash"
    words = ("--allow-all-tools", "--prompt")

    def _environment(self, agent: str) -> dict[str, str]:
        return {
            **super()._environment(agent),
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/{agent}/v1",
            "COPILOT_PROVIDER_API_KEY": "scripted",
            "COPILOT_MODEL": "scripted",
        }


class Gemini(Other):
    kind = "gemini"
    shell_tool = "run_shell_command"
    words = ("--skip-trust", "--yolo", "--model", "gemini-2.5-flash", "--prompt")

    def __init__(self, program: Path, model: Model, home: Path) -> None:
        super().__init__(program, model, home)
        (home / ".gemini").mkdir(exist_ok=True)
        (home / ".gemini" / "settings.json").write_text(json.dumps(GEMINI_SETTINGS))

    def _environment(self, agent: str) -> dict[str, str]:
        address = {"GOOGLE_GEMINI_BASE_URL": f"{self.model.url}/{agent}", "GEMINI_API_KEY": "scripted"}
        return {**super()._environment(agent), **address}


class Goose(Other):
    kind = "goose"
    shell_tool = "shell"
    words = ("run", "--no-session", "--with-builtin", "developer", "--text")

    def _environment(self, agent: str) -> dict[str, str]:
        return {
            **super()._environment(agent),
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "scripted",
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "OPENAI_HOST": self.model.url,
            "OPENAI_BASE_PATH": f"{agent}/v1/chat/completions",
            "OPENAI_API_KEY": "scripted",
        }


class Opencode(Other):
    kind = "opencode"
    shell_tool = "bash"
    words = ("run", "--model", "scripted/scripted")
    takes_prompt_as_word = False  # it would quote the prompt

    def _environment(self, agent: str) -> dict[str, str]:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{self.model.url}/{agent}/v1", "apiKey": "scripted"},
            "models": {"scripted": {}},
        }
        return {
            **super()._environment(agent),
            "OPENCODE_CONFIG_CONTENT": json.dumps({"provider": {"scripted": provider}}),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
