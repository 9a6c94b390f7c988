"""Hooks that record what a client gives them, and answer what the test says: how a client treats hooks, seen alone."""

from __future__ import annotations

import json
import shlex
import socketserver
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.kit.agents.model import CLOSE_SECONDS_MAX
from tests.kit.agents.script import Json
from tests.kit.waiting import PATIENCE_SECONDS

HOOK = Path(__file__).with_name("hook.py")
HOOK_SECONDS_MAX = 30


@dataclass(frozen=True)
class Recorded:
    event: str
    payload: Json
    environment: dict[str, str]


@dataclass(frozen=True)
class Answer:
    stdout: Json | str = ""
    stderr: str = ""
    exit: int = 0


Decide = Callable[[Recorded], Answer]


def decision(event: str, **fields: Any) -> Answer:
    """The answer of a hook that decides, in the shape that Claude Code and Codex share."""
    return Answer({"hookSpecificOutput": {"hookEventName": event, **fields}})


class Recorder:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._recorded: list[Recorded] = []
        self._decide: dict[str, Decide] = {}
        self._server = socketserver.ThreadingTCPServer(
            ("127.0.0.1", 0), type("_Bound", (_Connection,), {"recorder": self})
        )
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(CLOSE_SECONDS_MAX,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def hooks(self, *events: str, **fields: Any) -> Json:
        """The settings that make a client run the recorder's hook at these events; `fields` are added to each."""
        port = self._server.server_address[1]
        return {event: [{"hooks": [{**self._hook(port, event), **fields}]}] for event in events}

    def on(self, event: str, decide: Decide) -> None:
        self._decide[event] = decide

    def recorded(self, event: str) -> list[Recorded]:
        with self._changed:
            return [each for each in self._recorded if each.event == event]

    def payloads(self, event: str) -> list[Json]:
        return [each.payload for each in self.recorded(event)]

    def await_event(self, event: str, count: int = 1) -> Recorded:
        with self._changed:
            came = self._changed.wait_for(lambda: len(self._of(event)) >= count, PATIENCE_SECONDS)
            assert came, f"{event} came {len(self._of(event))} times, not {count}"
            return self._of(event)[count - 1]

    def record(self, recorded: Recorded) -> Answer:
        with self._changed:
            self._recorded.append(recorded)
            self._changed.notify_all()
        decide = self._decide.get(recorded.event)
        return decide(recorded) if decide else Answer()

    def _of(self, event: str) -> list[Recorded]:
        return [each for each in self._recorded if each.event == event]

    @staticmethod
    def _hook(port: int, event: str) -> Json:
        command = shlex.join([sys.executable, "-I", "-S", str(HOOK), str(port), event])
        return {"type": "command", "command": command, "timeout": HOOK_SECONDS_MAX}


class _Connection(socketserver.StreamRequestHandler):
    recorder: Recorder

    def handle(self) -> None:
        answer = self.recorder.record(Recorded(**json.loads(self.rfile.readline())))
        stdout = answer.stdout if isinstance(answer.stdout, str) else json.dumps(answer.stdout)
        told = {"stdout": stdout, "stderr": answer.stderr, "exit": answer.exit}
        self.wfile.write(json.dumps(told).encode() + b"\n")
