"""Codex, by `codex exec`: a process works on one prompt, and asks for no permission. A session goes on by `resume`."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kit.agents import script
from tests.kit.agents.client import Client
from tests.kit.agents.model import Model
from tests.kit.agents.process import Agent
from tests.kit.agents.script import Json, Step
from tests.kit.waiting import PATIENCE_SECONDS

CONFIGURATION = """\
model = "gpt-5.5-codex"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
enable_request_compression = false
"""
#: With plugins, it asks hosts outside for those that it recommends.
NO_PLUGINS = ("--disable", "plugins")
#: What a command may write: the project and temporary folders, but no `.git`; needs namespaces of the machine.
SANDBOX = "workspace-write"
NO_SANDBOX = "danger-full-access"


def shell(command: str) -> Step:
    return script.call("exec_command", {"cmd": command})


def write(path: Path, content: str) -> Step:
    """A new file."""
    lines = "".join(f"+{line}\n" for line in content.splitlines())
    return script.call("apply_patch", f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")


def subagent(steps: Sequence[Step]) -> list[Step]:
    """Its tool has to be searched for. The subagent ends with the turn: hold that up with `script.after`."""
    return [
        script.call("tool_search", {"query": "spawn agent"}),
        script.call("multi_agent_v1.spawn_agent", {"message": script.prompt(steps)}),
    ]


class CodexAgent(Agent):
    @property
    def session_id(self) -> str:
        return str(self.await_line(lambda line: line["type"] == "thread.started")["thread_id"])

    @property
    def transcript(self) -> list[Json]:
        """The file that the client keeps of the session."""
        (path,) = (self.home / ".codex" / "sessions").rglob(f"rollout-*-{self.session_id}.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]


class Codex(Client):
    kind = "codex"
    shell = staticmethod(shell)
    write = staticmethod(write)

    def __init__(self, program: Path, model: Model, home: Path) -> None:
        super().__init__(program, model, home)
        self._folder = home / ".codex"
        self._folder.mkdir(exist_ok=True)
        if not (self._folder / "config.toml").exists():
            (self._folder / "config.toml").write_text(CONFIGURATION)
        self._plugins: tuple[str, ...] = NO_PLUGINS
        # Commands run in a login shell, which forgets the PATH of the client.
        (home / ".bash_profile").write_text(f"export PATH={shlex.quote(self._environment('')['PATH'])}\n")

    def use_hooks(self, hooks: Json) -> None:
        """As the person's own, for every session from now on."""
        (self._folder / "hooks.json").write_text(json.dumps({"hooks": hooks}))

    def install(self, marketplace: Path, plugin: str) -> None:
        """`PLUGIN@MARKETPLACE`, as a person does."""
        self._plugins = ()
        self.command("plugin", "marketplace", "add", str(marketplace))
        self.command("plugin", "add", plugin)

    def why_no_sandbox(self) -> str:
        """Why commands cannot run in a sandbox on this machine, if they cannot."""
        try:
            self.command("sandbox", "--", "true")
        except AssertionError as error:
            return f"codex: no sandbox on this machine: {error}"
        return ""

    def start(
        self,
        project: Path,
        steps: Sequence[Step],
        *options: str,
        trust_hooks: bool = True,
        sandbox: str = NO_SANDBOX,
        writable: Sequence[Path] = (),
        resume: str | None = None,
        fork: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> CodexAgent:
        """A session with one prompt; `resume` is the id of an earlier one, `writable` what a sandbox opens as well."""
        name = self._next_name()
        words = ["exec", "--json", "--skip-git-repo-check", "--sandbox", sandbox, *self._plugins, *options]
        words += ["-c", f"model_providers.scripted.base_url={self.model.url}/{name}/v1"]
        if writable:
            roots = json.dumps([str(path) for path in writable])
            words += ["-c", f"sandbox_workspace_write.writable_roots={roots}"]
        words += ["--dangerously-bypass-hook-trust"] if trust_hooks else []
        words += ["fork" if fork else "resume", resume] if resume else []
        agent = self._run(CodexAgent, name, [*words, script.prompt(steps)], project, environment)
        agent.close_stdin()
        return agent

    def printed(self, project: Path, steps: Sequence[Step]) -> str:
        """What a person reads of a session, from its start to its end: also which hooks failed."""
        name = self._next_name()
        words = ["exec", "--skip-git-repo-check", "--sandbox", NO_SANDBOX, *self._plugins]
        words += ["-c", f"model_providers.scripted.base_url={self.model.url}/{name}/v1"]
        done = subprocess.run(
            [str(self.program), *words, "--dangerously-bypass-hook-trust", script.prompt(steps)],
            cwd=project,
            env=self._environment(name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def _environment(self, agent: str) -> dict[str, str]:
        return {**super()._environment(agent), "CODEX_HOME": str(self.home / ".codex"), "SCRIPTED_KEY": "scripted"}
