"""An agent of the claim-by-move contract: the contract's own functions, and what they leave to whoever writes the agent
(`add_claim_metadata`, `execute_action` and so on).

As a program, `python -m tests.vault.source_agent VAULT AGENT` claims what is there, once; with `--sync` it goes through
the contract's loop beside git, once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.vault.racing import CLAIMED, COMPLETED

if TYPE_CHECKING:
    from dibs.board import Board

CONTRACT = Path(__file__).parents[1] / "sources" / "claim_by_move_contract" / "claiming.py"


class Over(BaseException):
    """Ends a loop that has no end, and goes on after every Exception."""


class SourceAgent:
    """`functions` are the contract's. What was claimed, written and released is told by the name of the item."""

    def __init__(self, root: str, name: str, *, is_over: Callable[[], bool], appends: bool = True) -> None:
        self.root, self.name, self.appends, self._is_over = root, name, appends, is_over
        self.holds: list[list[Any]] = []
        self.notes: dict[str, list[str]] = {}
        self.lines: list[str] = []
        self._since: dict[str, int] = {}
        self._until = 0
        left_open: dict[str, Any] = {
            **{"subprocess": subprocess, "AGENT_NAME": name, "AGENT_ROLE": "LOCAL"},
            **{"ALLOWED_ACTIONS": ("work",), "SENSITIVE_ACTIONS": ()},
            **{"add_claim_metadata": self._add_claim_metadata, "update_metadata": self._update_metadata},
            **{"read_task": lambda path: Path(path).read_text(encoding="utf-8")},
            **{"determine_action": lambda task: "work" if task else "", "execute_action": self._execute_action},
            **{"claim_and_process_tasks": self._claim_and_process_tasks},
            **{"log": self.lines.append, "log_error": self.lines.append},
        }
        words = CONTRACT.read_text(encoding="utf-8").replace("/vault", root)
        exec(compile(words, str(CONTRACT), "exec"), left_open)  # noqa: S102 - the contract's code, with another folder
        left_open["time"] = SimpleNamespace(sleep=self._sleep)
        self.functions = SimpleNamespace(**left_open)

    def tasks(self) -> list[str]:
        return [name for name in os.listdir(os.path.join(self.root, "Needs_Action")) if name.endswith(".md")]

    def _claim_and_process_tasks(self, agent: str) -> None:
        for task in self.tasks():
            if self.functions.claim_with_retry(task, agent):
                self.functions.process_task(task)

    def _add_claim_metadata(self, path: str, agent: str) -> None:
        name = os.path.basename(path)
        self._since[name] = time.monotonic_ns()
        note = f"{agent} was here {os.urandom(6).hex()}"
        self.notes.setdefault(name.removesuffix(".md"), []).append(note)
        self._write(path, CLAIMED.format(id=name, agent=agent, at=datetime.now(UTC).isoformat(), note=note))

    def _update_metadata(self, path: str, state: str) -> None:
        name = os.path.basename(path)
        self.holds.append([name.removesuffix(".md"), self.name, self._since.pop(name), self._until, state.lower()])
        self._write(path, COMPLETED.format(at=datetime.now(UTC).isoformat(), state=state))

    def _write(self, path: str, text: str) -> None:
        """Appended by one half of the agents, the whole file read and written anew by the others."""
        before = "" if self.appends else Path(path).read_text(encoding="utf-8")
        with open(path, "a" if self.appends else "w", encoding="utf-8") as file:
            file.write(before + text)

    def _execute_action(self, action: str, task: str) -> None:
        self._until = time.monotonic_ns()

    def _sleep(self, seconds: float) -> None:
        if self._is_over():
            raise Over
        time.sleep(seconds)


def play(board: Board, *, root: str, agent: str, stop: str, appends: bool, interval: float = 0.005) -> dict[str, Any]:
    """A scene: the loop of the contract until the file `stop` is there."""
    board.close()
    one = SourceAgent(root, agent, is_over=lambda: os.path.exists(stop), appends=appends)
    try:
        one.functions.claim_loop(agent, interval=interval)
    except Over:
        pass
    return {"holds": one.holds, "notes": one.notes, "lines": one.lines}


def main(root: str, agent: str, *options: str) -> None:
    one = SourceAgent(root, agent, is_over=lambda: "--sync" in options)
    if "--sync" in options:
        try:
            one.functions.sync_safe_claim_loop(agent)
        except Over:
            return
    for task in one.tasks():
        if one.functions.claim_with_retry(task, agent) and one.functions.verify_claim(task):
            print(f"Claimed: {task}")


if __name__ == "__main__":
    main(*sys.argv[1:])
