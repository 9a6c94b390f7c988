"""A running agent: its process, the lines that it prints, and what its model is sent."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from tests.kit import processes
from tests.kit.agents.model import Model, Request
from tests.kit.agents.script import Json
from tests.kit.waiting import PATIENCE_SECONDS

#: In the environment of an agent and of all that it starts, so that nothing outlives the test.
VARIABLE = "DIBS_TEST_AGENT"
#: What an agent started has so long to end by itself.
LEFTOVERS_SECONDS_MAX = 2.0


class Agent:
    """An agent at work, until the `with` block is left."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        project: Path,
        home: Path,
        environment: Mapping[str, str],
        model: Model,
    ) -> None:
        self.name = name
        self.home = home
        self._model = model
        self._mark = uuid.uuid4().hex
        self._changed = threading.Condition()
        self._lines: list[Json] = []
        self._ended = False
        self._complaints = home / f"{name}.stderr"
        self._process, self._input, self._output = self._spawn(command, project, {**environment, VARIABLE: self._mark})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def processes(self) -> list[int]:
        """Itself and all that it started, as long as they live."""
        return processes.with_variable(VARIABLE, self._mark)

    def running(self, *command: str) -> list[int]:
        """Those of its processes that run this command."""
        return [pid for pid in self.processes if processes.command(pid) == list(command)]

    @property
    def lines(self) -> list[Json]:
        """What it printed so far."""
        with self._changed:
            return list(self._lines)

    @property
    def complaints(self) -> str:
        return self._complaints.read_text(errors="replace")

    @property
    def requests(self) -> list[Request]:
        """What its model was sent so far, also by its subagents."""
        return self._model.requests(self.name)

    @property
    def results(self) -> list[str]:
        """The results of the calls in the newest conversation, as the model sees them."""
        return self.requests[-1].results

    @property
    def texts(self) -> list[str]:
        """What the model sees beside results in the newest conversation."""
        return self.requests[-1].texts

    def await_line(self, wanted: Callable[[Json], object], count: int = 1) -> Json:
        """The line that is wanted, `count` of them having come."""

        def found() -> list[Json]:
            return [line for line in self._lines if wanted(line)]

        with self._changed:
            self._changed.wait_for(lambda: len(found()) >= count or self._ended, PATIENCE_SECONDS)
            assert len(found()) >= count, f"{self.name} printed no such line: {self._lines}\n{self.complaints}"
            return found()[count - 1]

    def await_pause(self, pause: str) -> None:
        """Wait until its model holds the answer that is `after` this pause."""
        self._model.await_pause(self.name, pause)

    def go_on(self, pause: str) -> None:
        self._model.go_on(self.name, pause)

    def write_line(self, line: str) -> None:
        self._input.write(f"{line}\n".encode())
        self._input.flush()

    def finish(self) -> int:
        """Its exit code, once it has ended by itself, nothing more being said to it."""
        self.close_stdin()
        return self.wait()

    def close_stdin(self) -> None:
        self._input.close()

    def wait(self) -> int:
        code = self._process.wait(PATIENCE_SECONDS)
        # If the agent was killed, what it started may hold its output open.
        self._reader.join(LEFTOVERS_SECONDS_MAX)
        return code

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """`kill -9` of the agent alone: what it started stays."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the agent and all that it started."""
        if self._process.poll() is None:
            self.kill()
        processes.await_gone(self.processes, LEFTOVERS_SECONDS_MAX)
        self._reader.join(PATIENCE_SECONDS)
        self._input.close()
        self._output.close()

    def _spawn(
        self, command: Sequence[str], project: Path, environment: Mapping[str, str]
    ) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
        with open(self._complaints, "wb") as stderr:
            process = subprocess.Popen(
                command,
                cwd=project,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        assert process.stdin
        assert process.stdout
        return process, process.stdin, process.stdout

    def _read(self) -> None:
        # A terminal ends with an error.
        with contextlib.suppress(OSError):
            for raw in self._output:
                with self._changed:
                    self._lines.append(_parsed(raw))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class TerminalAgent(Agent):
    """An agent on a terminal of its own, as a person starts it. Its lines are what it draws."""

    def type(self, text: str) -> None:
        self._input.write(f"{text}\r".encode())

    def _spawn(
        self, command: Sequence[str], project: Path, environment: Mapping[str, str]
    ) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
        ours, theirs = os.openpty()
        try:
            process = subprocess.Popen(
                command,
                cwd=project,
                env={**environment, "TERM": "xterm-256color"},
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        return process, open(os.dup(ours), "wb", buffering=0), open(ours, "rb")


def _parsed(line: bytes) -> Json:
    """Most agents print JSON objects; what else they print is a text."""
    text = line.decode(errors="replace")
    return json.loads(text) if text.startswith("{") else {"type": "text", "text": text}
