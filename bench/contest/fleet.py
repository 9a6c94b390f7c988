"""Worker processes that stay from run to run, so that no run pays for starting them.

The two sides speak in lines. The owner says what is to be done, as JSON; the worker gets ready and says so; the owner
starts all of them at once; each answers with what it got done.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import IO

from bench.contest.result import Result, of_workers
from bench.contest.window import Window

READY, GO = "ready\n", "go\n"
Gate = Callable[[], Window]


class Fleet:
    """Up to as many processes as were ever asked for, each in `main` of a module."""

    def __init__(self, module: str, url: str) -> None:
        self._command = [sys.executable, "-m", __name__, module, url]
        self._workers: list[subprocess.Popen[str]] = []

    def run(self, workers: int, batch: int, seconds: float) -> Result:
        while len(self._workers) < workers:
            self._workers.append(
                subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
        chosen = self._workers[:workers]
        for worker in chosen:
            _say(worker, json.dumps({"batch": batch, "seconds": seconds}) + "\n")
        for worker in chosen:
            assert _out(worker).readline() == READY, f"{self._command} is not ready"
        for worker in chosen:
            _say(worker, GO)
        answers = [json.loads(_out(worker).readline()) for worker in chosen]
        return of_workers([(answer["pairs"], answer["worst_ms"]) for answer in answers], seconds)

    def close(self) -> None:
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.close()
        for worker in self._workers:
            worker.wait()
            _out(worker).close()


def runs() -> Iterator[tuple[int, Gate]]:
    """The worker's side: for each run the batch, and a gate to be passed once everything is ready."""
    for line in sys.stdin:
        asked = json.loads(line)
        opened: list[Window] = []

        def gate(seconds: float = asked["seconds"], opened: list[Window] = opened) -> Window:
            sys.stdout.write(READY)
            sys.stdout.flush()
            assert sys.stdin.readline() == GO
            opened.append(Window(seconds))
            return opened[0]

        yield asked["batch"], gate
        (window,) = opened
        print(json.dumps({"pairs": window.pairs, "worst_ms": window.worst_ms}), flush=True)


def _say(worker: subprocess.Popen[str], line: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(line)
    worker.stdin.flush()


def _out(worker: subprocess.Popen[str]) -> IO[str]:
    assert worker.stdout is not None
    return worker.stdout


if __name__ == "__main__":
    importlib.import_module(sys.argv[1]).main(sys.argv[2])
