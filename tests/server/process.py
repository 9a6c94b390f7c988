"""A `dibs serve` of a test: a real process, in an environment of its own."""

from __future__ import annotations

import functools
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from dibs.board import connect, make
from dibs.testing.fork_server import Called
from tests.kit.command_server import CommandServer
from tests.server.attacking import Caller

STOP_SECONDS_MAX = 20


#: What a server imports: most of what its start costs.
SERVER_MODULES = ("dibs.cli.server", "dibs.server.app", "uvicorn")


@functools.cache
def _commands() -> CommandServer:
    """Forks servers, and commands of their users."""
    return CommandServer({"PATH": os.environ["PATH"]}, *SERVER_MODULES)


class Serving:
    """`told` is what it said of itself with `--json`. `files` are its soft and its hard limit of open files."""

    def __init__(
        self, folder: Path, *words: str, store: str | None = None, files: tuple[int, int] | None = None
    ) -> None:
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LOGNAME": "alice",
            **({} if store is None else {"DIBS_STORE": store}),
        }
        self._log = open(folder / "log", "w+", encoding="utf-8")  # noqa: SIM115 - open for as long as the process
        command = ["serve", "--port", "0", "--json", *words]
        reading, writing = os.pipe()
        self.process = self._forked(command, writing) if files is None else self._started(command, writing, files)
        os.close(writing)
        self._stdout = open(reading, encoding="utf-8")  # noqa: SIM115 - open for as long as the process
        line = self._stdout.readline()
        assert line, self.log()
        self.said: dict[str, Any] = json.loads(line)
        self.told: dict[str, Any] = self.said.get("serving", {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._stdout.close()
        self._log.close()
        if isinstance(self.process, Called):
            self.process.close()

    def _forked(self, command: list[str], stdout: int) -> Called | subprocess.Popen[bytes]:
        with open(os.devnull, "rb") as null:
            files = (null.fileno(), stdout, self._log.fileno())
            return _commands().start(command, str(self.folder), self.environment, files)

    def _started(self, command: list[str], stdout: int, files: tuple[int, int]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dibs.cli.main", *command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=self._log,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files),
        )

    @property
    def url(self) -> str:
        return str(self.told["url"])

    def admin(self) -> Caller:
        """With the key that was left for this user."""
        with open(self.told["key_file"], encoding="utf-8") as file:
            return Caller(self.url, json.load(file)["key"])

    def dibs(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """The command line of the same user, told where the server is and nothing else."""
        done = _commands().run(
            words,
            folder=str(self.folder),
            environment=self.environment | {"DIBS_STORE": self.url} | environment,
            feed=None,
            seconds_max=30,
        )
        return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())

    def stop(self, by: int = signal.SIGTERM) -> int:
        self.process.send_signal(by)
        return self.process.wait(STOP_SECONDS_MAX)

    def log(self) -> str:
        with open(self.folder / "log", encoding="utf-8") as file:
            return file.read()


@contextmanager
def serving(
    folder: Path, *words: str, store: str | None = None, files: tuple[int, int] | None = None
) -> Iterator[Serving]:
    """A server of a new board in this folder, or of the one at `store`."""
    if store is None:
        make(str(folder / ".dibs" / "board.db"), folder=str(folder))
    with Serving(folder, *words, store=store, files=files) as found:
        yield found


class Background:
    """Something that is going on in a thread, and what came of it."""

    def __init__(self, work: Any) -> None:
        self._work, self._found = work, None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(STOP_SECONDS_MAX)
        assert not self._thread.is_alive()
        return self._found

    def _run(self) -> None:
        self._found = self._work()


def board_of(serving: Serving) -> Any:
    return connect(serving.told["store"])
