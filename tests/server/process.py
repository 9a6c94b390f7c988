"""A `dibs serve` of a test: a real process, in an environment of its own."""

from __future__ import annotations

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
from tests.server.attacking import Caller

STOP_SECONDS_MAX = 20


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
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dibs.cli.main", "serve", "--port", "0", "--json", *words],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            preexec_fn=None if files is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log()
        self.said: dict[str, Any] = json.loads(line)
        self.told: dict[str, Any] = self.said.get("serving", {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    @property
    def url(self) -> str:
        return str(self.told["url"])

    def admin(self) -> Caller:
        """With the key that was left for this user."""
        with open(self.told["key_file"], encoding="utf-8") as file:
            return Caller(self.url, json.load(file)["key"])

    def dibs(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """The command line of the same user, told where the server is and nothing else."""
        return subprocess.run(
            [sys.executable, "-m", "dibs.cli.main", *words],
            cwd=self.folder,
            env=self.environment | {"DIBS_STORE": self.url} | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            start_new_session=True,
            check=False,
        )

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
