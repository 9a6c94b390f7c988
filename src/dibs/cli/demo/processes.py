"""The processes of a demo: a server and workers, which end with the demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

from dibs.worker.process_group import Guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

#: The demo has failed if a server takes longer to start, or an expected event to happen.
PATIENCE_SECONDS = 20.0


class Processes:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []
        # Ends the child processes if this process is killed.
        self._guard = Guard()
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
        # The files that a server leaves for its user are removed with the folder.
        self._environment["XDG_STATE_HOME"] = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
        for process in self._started:
            process.communicate()
            self._guard.remove(process.pid)
        self._guard.close()

    @property
    def file(self) -> str:
        """The file of the board."""
        return os.path.join(self.folder, "board.db")

    def serve(self) -> dict[str, Any]:
        """Start a server for the board; return its `url` and its `pages`, or the `error` that prevented it."""
        server = self.start("dibs.cli.main", "serve", "--port", "0", "--quiet", "--json", "--store", self.file)
        assert server.stdout is not None
        late = threading.Timer(PATIENCE_SECONDS, server.kill)
        late.start()
        try:
            answer = json.loads(server.stdout.readline() or "{}")
        finally:
            late.cancel()
        if "serving" not in answer:
            return {"url": None, "error": answer.get("error", {}).get("message", "it did not start")}
        serving: dict[str, Any] = answer["serving"]
        return serving

    def start(self, module: str, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            cwd=self.folder,
            env=self._environment,
            # Ctrl-C reaches only this process, which then ends the others.
            process_group=0,
        )
        self._started.append(process)
        self._guard.add(process.pid)
        return process

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill a process for good."""
        process.kill()
        process.communicate()
        self._guard.remove(process.pid)
        self._started.remove(process)
