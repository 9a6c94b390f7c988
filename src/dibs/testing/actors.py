"""Real processes that a test directs: each holds a board and obeys orders that come as lines of JSON.

`ask` has a verb done and gives its answer; `play` has a scene played, a function of a board: see `dibs.testing.scenes`.
An order may hold at a gate, so that many processes begin within microseconds of each other. Actors can be killed,
stopped and continued, and never outlive the harness that started them.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time

from dibs.system import locks
from dibs.testing.fork_server import Called, room_for
from dibs.text import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How long an actor may take over one order before the test gives up on it.
PATIENCE_SECONDS = 120.0


class Gone(AssertionError):
    """The process is no more, and nobody had asked it to go."""


class Answer:
    """What an actor says about one verb: a reply or an error as the wire has them, and when, on the shared clock."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.reply: Any = line.get("reply")
        self.error: dict[str, Any] | None = line.get("error")
        self.start_ns: int = line["start_ns"]
        self.end_ns: int = line["end_ns"]

    @property
    def code(self) -> str | None:
        return None if self.error is None else self.error["code"]

    def __repr__(self) -> str:
        return f"Answer(reply={self.reply!r}, error={self.error!r})"


class Gate:
    """Closed while its holder has the lock; an actor passes by taking a share of it, so opening lets all through."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        self.close()

    def close(self) -> None:
        locks.lock(self._file)

    def open(self) -> None:
        locks.unlock(self._file)


def pass_gate(path: str) -> None:
    """Block until the gate is open."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        locks.lock(file, is_shared=True)
    finally:
        os.close(file)


def say(line: dict[str, Any]) -> None:
    """What an actor says. One write, so that a line is out or not, whatever happens to the process next."""
    os.write(1, json.dumps(line).encode() + b"\n")


class Actor:
    def __init__(self, recipe: dict[str, Any], folder: str, *, prefix: tuple[str, ...] = ()) -> None:
        """`prefix` goes before the command: a tracer, for instance. Without one it is called from the green room."""
        self._errors_path = os.path.join(folder, f"actor-{os.urandom(4).hex()}.err")
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        self._buffer = b""
        with open(self._errors_path, "wb") as errors:
            self.process: Called | subprocess.Popen[bytes]
            if prefix:
                command = [*prefix, sys.executable, "-m", "dibs.testing.actor"]
                self.process = subprocess.Popen(command, stdin=orders, stdout=answers, stderr=errors)
            else:
                self.process = room_for(recipe["call"]).call(orders, answers, errors.fileno())
        os.close(orders)
        os.close(answers)
        self._send(recipe)

    @property
    def pid(self) -> int:
        return self.process.pid

    def await_ready(self) -> int:
        """Its own pid, once it stands; under a tracer, `pid` is the tracer's."""
        pid: int = self.read("ready")["ready"]
        return pid

    # Orders

    def ask(self, verb: str, *args: Any, **kwargs: Any) -> Answer:
        """Do this verb of the board now, and say what came of it."""
        self.send(verb, *args, **kwargs)
        return self.answer()

    def send(self, verb: str, *args: Any, at: Gate | None = None, **kwargs: Any) -> None:
        """The order alone; with `at`, the actor does it when that gate opens. The reply is read with `answer`."""
        order = {"verb": verb, "args": args, "kwargs": wire.encode(kwargs), "gate": None if at is None else at.path}
        self._send(order)
        if at is not None:
            self.read("at_gate")

    def play(self, scene: str, **kwargs: Any) -> None:
        """Begin a scene, `package.module:function`; what it returns is read with `result`."""
        self._send({"scene": scene, "kwargs": kwargs})

    def answer(self) -> Answer:
        return Answer(self.read("start_ns"))

    def result(self) -> Any:
        return self.read("result")["result"]

    # Fates

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Suspend it, and wait until it is: whatever it does next, it does after `resume`."""
        self.process.send_signal(signal.SIGSTOP)
        self.await_stop()

    def await_stop(self) -> None:
        assert isinstance(self.process, Called), "whoever traces it hears of its stops"
        stopped = self.process.await_stop(PATIENCE_SECONDS)
        assert stopped, f"actor {self.pid} ended, or did not stop within {PATIENCE_SECONDS:g} s\n{self.errors()}"

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """Let it end by itself: there are no more orders."""
        os.close(self._orders)
        self._orders = -1
        try:
            self.process.wait(PATIENCE_SECONDS)
        finally:
            self.end()

    def end(self) -> None:
        """Make sure that it is gone; an actor does not outlive its test."""
        if self.process.poll() is None:
            self.kill()
        for file in (self._orders, self._answers):
            if file >= 0:
                os.close(file)
        self._orders = self._answers = -1
        if isinstance(self.process, Called):
            self.process.close()

    # Lines

    def _send(self, order: dict[str, Any]) -> None:
        try:
            os.write(self._orders, json.dumps(order).encode() + b"\n")
        except BrokenPipeError:
            raise Gone(f"actor {self.pid} is gone\n{self.errors()}") from None

    def read(self, expected: str, patience_seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """The next line, which has to have this key."""
        found: dict[str, Any] = json.loads(self._line(patience_seconds))
        if expected not in found:
            raise AssertionError(f"actor {self.pid} said {found} where {expected!r} was due\n{found.get('crash', '')}")
        return found

    def read_past(self, passed: str, expected: str) -> dict[str, Any]:
        """The first line with the key `expected`, after however many with the key `passed`."""
        while True:
            found: dict[str, Any] = json.loads(self._line(PATIENCE_SECONDS))
            if passed not in found:
                if expected not in found:
                    raise AssertionError(f"actor {self.pid} said {found} where {expected!r} was due\n{self.errors()}")
                return found

    def _line(self, patience_seconds: float) -> bytes:
        end = time.monotonic() + patience_seconds
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise AssertionError(f"actor {self.pid} did not answer within {patience_seconds:g} s\n{self.errors()}")
            read = os.read(self._answers, 1 << 16)
            if not read:
                raise Gone(f"actor {self.pid} ended without an answer\n{self.errors()}")
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def errors(self) -> str:
        with open(self._errors_path, encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]
