"""Commands of `dibs` as forks of a process that has imported dibs.

To start an interpreter and import dibs costs several times what a command does. A fork is as real a process: it has
its own session, folder, environment and files, opens the board itself, and ends as the console script does. What only
a new interpreter shows, such as what a command imports, needs `subprocess`; so does a command whose environment changes
the interpreter.
"""

from __future__ import annotations

import io
import os
import selectors
import subprocess
import sys
import time

from dibs.cli import main as command_line
from dibs.testing.fork_server import CALL_BYTES_MAX, Called, Room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

CLI = (
    *("admin", "agents", "archive", "claim_commands", "claim_lines", "context", "edit", "event_lines", "help"),
    *("history", "hook", "identity", "items", "parser", "render", "review", "show", "tasks", "vault", "wait", "who"),
)
#: What commands import late. `psycopg`, because to import it costs more than any command.
MODULES = (
    *(f"dibs.cli.{name}" for name in CLI),
    *("dibs.board", "dibs.location", "dibs.maintenance.doctor", "dibs.system.trust", "dibs.system.git_index"),
    *("dibs.store.sqlite.store", "dibs.store.sqlite.schema", "dibs.store.postgres.store", "dibs.store.vault.store"),
    *("psycopg", "difflib", "hashlib", "pwd", "selectors", "shlex", "tomllib", "unicodedata"),
)
#: What the interpreter, or a library, reads from the environment when it starts.
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "PG")
READ_BYTES = 1 << 16


class CommandServer:
    """Forks commands with any folder, and with any environment in which the interpreter would be the same."""

    def __init__(self, environment: Mapping[str, str], *modules: str) -> None:
        self._environment = dict(environment)
        path = {"PYTHONPATH": os.environ["PYTHONPATH"]}
        self._room = Room(*MODULES, *modules, program=f"{__name__}:run", environment={**environment, **path})

    def fits(self, words: Sequence[str | bytes], environment: Mapping[str, str]) -> bool:
        """Whether a fork does what a new interpreter would, and its call has room."""
        names = {name for name in self._environment.keys() | environment.keys() if name.startswith(READ_AT_START)}
        alike = all(self._environment.get(name) == environment.get(name) for name in names)
        return alike and sum(map(len, words)) < CALL_BYTES_MAX // 8

    def start(
        self, words: Sequence[str | bytes], folder: str, environment: Mapping[str, str], files: tuple[int, int, int]
    ) -> Called:
        decoded = [os.fsdecode(word) for word in words]
        return self._room.call(*files, words=decoded, folder=folder, environment=dict(environment), own_session=True)

    def run(
        self,
        words: Sequence[str | bytes],
        *,
        folder: str,
        environment: Mapping[str, str],
        feed: bytes | None,
        seconds_max: float,
    ) -> subprocess.CompletedProcess[bytes]:
        """As `subprocess.run` does with `capture_output`; without anything to feed, stdin is the null device."""
        stdin = os.pipe() if feed is not None else (os.open(os.devnull, os.O_RDONLY), -1)
        stdout, stderr = os.pipe(), os.pipe()
        theirs = (stdin[0], stdout[1], stderr[1])
        called = self.start(words, folder, environment, theirs)
        for file in theirs:
            os.close(file)
        try:
            told, complaints = _communicate(feed or b"", stdin[1], stdout[0], stderr[0], seconds_max)
            return subprocess.CompletedProcess(list(words), called.wait(seconds_max), told, complaints)
        except TimeoutError:
            called.kill()
            raise subprocess.TimeoutExpired(list(words), seconds_max) from None
        finally:
            called.close()

    def close(self) -> None:
        self._room.close()


def _communicate(feed: bytes, stdin: int, stdout: int, stderr: int, seconds_max: float) -> tuple[bytes, bytes]:
    """Feed a process and read what it writes, until nobody can write any more. Closes the pipes."""
    end = time.monotonic() + seconds_max
    read = {stdout: bytearray(), stderr: bytearray()}
    still_open = {stdout, stderr}
    with selectors.PollSelector() as selector:
        for file in (stdout, stderr):
            selector.register(file, selectors.EVENT_READ)
        if stdin >= 0:
            os.set_blocking(stdin, False)
            still_open.add(stdin)
            selector.register(stdin, selectors.EVENT_WRITE)
        try:
            while still_open:
                ready = selector.select(end - time.monotonic())
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    if key.fd == stdin:
                        feed = _fed(stdin, feed)
                        ended = not feed
                    else:
                        more = os.read(key.fd, READ_BYTES)
                        read[key.fd] += more
                        ended = not more
                    if ended:
                        selector.unregister(key.fd)
                        still_open.remove(key.fd)
                        os.close(key.fd)
        finally:
            for file in still_open:
                os.close(file)
    return bytes(read[stdout]), bytes(read[stderr])


def _fed(stdin: int, feed: bytes) -> bytes:
    """What is left to feed: nothing, if nobody reads it any more."""
    try:
        return feed[os.write(stdin, feed) :] if feed else b""
    except BrokenPipeError:
        return b""


def run() -> None:
    """What a fork runs: the console script."""
    # Those of the forking process remember whether they could seek in its files.
    sys.stdin = _text(io.BufferedReader(io.FileIO(0, "r", closefd=False)), sys.stdin.errors)
    sys.stdout = _text(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), sys.stdout.errors)
    sys.stderr = _text(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), sys.stderr.errors, by_lines=True)
    command_line.run()


def _text(buffer: io.BufferedReader | io.BufferedWriter, errors: str | None, *, by_lines: bool = False) -> TextIO:
    return io.TextIOWrapper(buffer, encoding="utf-8", errors=errors, line_buffering=by_lines)
