"""A client in a home folder of its own: its configuration, its commands, and the agents that are started with it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.kit.agents.model import Model
from tests.kit.agents.process import Agent
from tests.kit.waiting import PATIENCE_SECONDS

AgentT = TypeVar("AgentT", bound=Agent)

_numbers = itertools.count(1)


class Client:
    #: As `programs.py` calls it.
    kind: str

    def __init__(self, program: Path, model: Model, home: Path) -> None:
        self.program = program
        self.model = model
        self.home = home
        (home / "tmp").mkdir(parents=True, exist_ok=True)

    def command(self, *words: str) -> str:
        """What a command of the client prints that is no session: `plugin`, for example."""
        return self._call([str(self.program), *words], self.home)

    def dibs(self, *words: str, folder: Path) -> str:
        """What a command of dibs prints that the person types: `setup`, for example."""
        return self._call(["dibs", *words], folder)

    def _call(self, words: Sequence[str], folder: Path) -> str:
        done = subprocess.run(
            words,
            cwd=folder,
            env=self._environment(f"{self.kind}-command"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _next_name(self) -> str:
        return f"{self.kind}-{next(_numbers)}"

    def _run(
        self, of: type[AgentT], name: str, words: Sequence[str], project: Path, environment: Mapping[str, str] | None
    ) -> AgentT:
        return of(
            name,
            [str(self.program), *words],
            project=project,
            home=self.home,
            environment={**self._environment(name), **(environment or {})},
            model=self.model,
        )

    def _environment(self, agent: str) -> dict[str, str]:
        """Nothing of the environment of the tests but the PATH, and no way out but the model's server."""
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "TMPDIR": str(self.home / "tmp"),
            "LANG": "C.UTF-8",
            "HTTP_PROXY": self.model.url,
            "HTTPS_PROXY": self.model.url,
            "NO_PROXY": "127.0.0.1,localhost",
        }
