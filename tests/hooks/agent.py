"""An agent for tests: a process that runs hooks and commands as its children, as a client does, with payloads in the
shape and the order of those that real clients were seen to send."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.kit.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parent.parent.parent
HOOK = ROOT / "plugins" / "dibs" / "hooks" / "dibs-hook.sh"
SESSION = "40099e16-bce1-4c1c-bfb8-631ecdceaf04"
OTHER_SESSION = "5bad735f-7d55-4662-bd30-fb6baacdae6f"
#: Reads a line, runs it, and says with which code it ended.
PROGRAM = """#!/bin/sh
while read -r line; do eval "$line"; echo $?; done
"""
_numbers = itertools.count()


def payload(client: str, event: str, session: str, cwd: Path, subagent: str | None = None, **fields: Any) -> str:
    """One event as Claude Code or Codex sends it: on one line, the fields of the tool last."""
    who = {} if subagent is None else {"agent_id": subagent, "agent_type": "general-purpose"}
    head: dict[str, Any] = {"session_id": session}
    if client == "codex":
        turn = {} if event.startswith("Session") else {"turn_id": "01a1e24a-8ba1-7e40-8823-a1abbb6df7cd"}
        place = {"transcript_path": f"/home/you/.codex/sessions/2026/11/16/rollout-{session}.jsonl", "cwd": str(cwd)}
        head |= turn | who | place | {"hook_event_name": event, "model": "gpt-5.5-codex"}
    else:
        head |= {"transcript_path": f"/home/you/.claude/projects/proj/{session}.jsonl", "cwd": str(cwd)}
        head |= {"prompt_id": "de23e6b1-7d09-43a1-9545-bb8310859429", "permission_mode": "default"}
        head |= who | {"effort": {"level": "medium"}, "hook_event_name": event}
    return json.dumps(head | fields, separators=(",", ":"))


class Done:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


class Agent:
    """A process that is called as the client is. Only Claude Code tells its pid."""

    def __init__(self, folder: Path, environment: dict[str, str], session: str = SESSION, client: str = "claude"):
        self.folder, self.client = folder, client
        self.home = Path(environment["XDG_STATE_HOME"]).parent
        self.states = self.home / "state" / "dibs" / "agents"
        program = self.home / client
        program.write_text(PROGRAM)
        program.chmod(0o755)
        self.process = subprocess.Popen(
            [program],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self.run("export CLAUDECODE=1 CLAUDE_PID=$$" if client == "claude" else "export CODEX_CI=1")
        self.become(session)

    def become(self, session: str) -> None:
        """The variables of another session, as after a clear. Claude Code reads its env file before every command."""
        self.session, self.env_file = session, self.home / f"env-{session}.sh"
        self.env_file.touch()
        if self.client == "claude":
            self.run(f"export CLAUDE_CODE_SESSION_ID={session} CLAUDE_ENV_FILE={self.env_file}")
        else:
            self.run(f"export CODEX_THREAD_ID={session}")

    def run(self, line: str) -> Done:
        """Run a line in the agent's own shell. Its children are children of the agent."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        out, err = (self.home / f"{next(_numbers)}" for _ in range(2))
        self.process.stdin.write(f"{{ {line}; }} >{out} 2>{err} </dev/null\n")
        code = self.process.stdout.readline()
        assert code, "the agent has ended"
        return Done(int(code), out.read_text(), err.read_text())

    def shell(self, command: str) -> Done:
        """A command of the agent's Bash tool."""
        source = f". {self.env_file}; " if self.client == "claude" else ""
        return self.run(f"( {source}{command} )")

    def hook(self, event: str, subagent: str | None = None, **fields: Any) -> dict[str, Any]:
        """What the hook answers, as the client reads it; nothing is an empty object."""
        text = payload(self.client, event, self.session, self.folder, subagent, **fields)
        return self.hook_with(event, text)

    def hook_with(self, event: str, text: str) -> dict[str, Any]:
        given = self.home / f"{next(_numbers)}"
        given.write_text(text)
        done = self.run(f"sh {HOOK} {event} <{given}")
        assert (done.code, done.err) == (0, "")
        found = json.loads(done.out or "{}")
        assert isinstance(found, dict)
        specific = found.get("hookSpecificOutput", found)
        assert isinstance(specific, dict)
        return specific

    def start(self, source: str = "startup") -> str:
        """Begin the session, and a turn of it; returns the context that the model is given."""
        answer = self.hook("SessionStart", source=source)
        self.hook("UserPromptSubmit", prompt="go on")
        return str(answer.get("additionalContext", ""))

    def bash(self, command: str = "ls", subagent: str | None = None) -> dict[str, Any]:
        return self.hook("PreToolUse", subagent, tool_name="Bash", tool_input={"command": command}, tool_use_id="t")

    def edit(self, path: str | Path, subagent: str | None = None) -> dict[str, Any]:
        input = {"file_path": str(self.folder / path), "content": "x"}
        return self.hook("PreToolUse", subagent, tool_name="Write", tool_input=input, tool_use_id="t")

    def denied(self, answer: dict[str, Any]) -> str:
        assert answer.get("permissionDecision") == "deny", answer
        return str(answer["permissionDecisionReason"])

    @property
    def state(self) -> Path:
        return self.states / self.session

    @property
    def keeper(self) -> int:
        """The pid of the keeper, once it runs."""
        wait_for(lambda: (self.state / "keeper").read_text().endswith("\n"))
        return int((self.state / "keeper").read_text())

    def continue_keeper(self) -> None:
        """Let a keeper go on that a test has stopped. One that was not stopped may end at any moment."""
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.state / "keeper").read_text()), signal.SIGCONT)

    def stop(self) -> None:
        """Stop the agent and its keeper, as when a machine sleeps."""
        for pid in (self.process.pid, self.keeper):
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """The agent goes on; its keeper is slower, and does so when the test ends."""
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def wait_for_end(pid: int) -> None:
    """Wait for a process that is not a child of this one."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([process], [], [], PATIENCE_SECONDS)[0], f"{pid} has not ended"
    os.close(process)


def wait_for(condition: Any) -> None:
    """Wait for what another process does to a file, by bounded polling."""

    def holds() -> bool:
        try:
            return bool(condition())
        except (FileNotFoundError, ValueError):
            return False

    until(holds)


__all__ = ["OTHER_SESSION", "SESSION", "Agent", "Done", "payload", "wait_for", "wait_for_end"]
