"""One script of verbs, run in a process under strace that makes one of its system calls fail, or be its last.

Every verb carries a request id, so whatever the fault left unknown is simply asked again: by the same process if it
lives, by another if it does not. In the end the script has been done exactly once, or something is wrong.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from dibs.board import Board
from dibs.errors import StoreUnavailable
from dibs.testing.actors import PATIENCE_SECONDS, Actor, Answer, Gone
from dibs.testing.harness import Harness
from dibs.testing.invariants import assert_sound
from tests.kit import sqlite

#: (verb, item, further arguments), each done under a request id of its own.
SCRIPT: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("claim", "x", {}),
    ("progress", "x", {"note": "half"}),
    ("release", "x", {}),
    ("claim", "x", {}),
    ("done", "x", {"links": {"pr": 1}}),
    ("claim", "y", {}),
    ("fail", "y", {"reason": "red"}),
    ("claim", "z", {}),
)
HISTORY = {
    "x": ["added", "claimable", "claimed", "progress", "released", "claimable", "claimed", "done"],
    "y": ["added", "claimable", "claimed", "failed"],
    "z": ["added", "claimable", "claimed"],
}
PASSING = "STORE_UNAVAILABLE"
#: A fault comes once; a verb that fails this often does not recover.
TRIES_MAX = 4
LOCK_WAIT_SECONDS = 2.0


class Traced:
    """What strace wrote of a process, and how it came up. `fault` is strace's, such as `pwrite64:error=EIO:when=5`."""

    fault: str | None
    log: Path
    died = False

    def fired(self) -> bool:
        text = self.log.read_text(errors="replace")
        return "(INJECTED)" in text or "killed by SIGKILL" in text

    def count(self, syscall: str) -> int:
        """How often the process made this system call."""
        return len(re.findall(rf"^\d+ +{syscall}\(", self.log.read_text(errors="replace"), re.MULTILINE))

    def _came_up(self, actor: Actor) -> bool:
        try:
            actor.await_ready()
        except Gone:
            actor.process.wait(PATIENCE_SECONDS)
            assert self.fired(), f"{self.fault}: it did not come up\n{actor.errors()}"
            self.died = True
        return not self.died


class Run(Traced):
    """One performance of the script, with one fault."""

    def __init__(self, folder: Path, fault: str | None, syscalls: str, *, only: tuple[str, ...] = ()) -> None:
        """With `only`, just the calls that name one of these files of the board."""
        folder.mkdir()
        self.folder, self.fault, self.log = folder, fault, folder / "strace.log"
        inject = () if fault is None else ("-e", f"inject={fault}")
        paths = [word for name in only for word in ("-P", str(folder / name))]
        self._prefix = ("strace", "-f", "-qq", "-o", str(self.log), "-e", f"trace={syscalls}", *inject, *paths)
        #: How often it was told to try again, and how often besides that nobody knows whether it was done.
        self.refusals = self.unknown = 0

    def perform(self) -> Run:
        with sqlite.harness(self.folder, lock_wait_seconds=LOCK_WAIT_SECONDS) as harness:
            board = harness.board()
            board.add_many({"id": id, "title": id} for id in HISTORY)
            board.start_session("ann", id="s")
            traced = Actor(harness.recipe(), harness.folder, prefix=self._prefix)
            try:
                self._act(harness, traced)
            finally:
                traced.leave()
            self._judge(harness.board())
        return self

    def _act(self, harness: Harness, traced: Actor) -> None:
        actor = traced if self._came_up(traced) else self._successor(harness)
        for number, (verb, item, more) in enumerate(SCRIPT):
            for _ in range(TRIES_MAX):
                answer = self._asked(actor, verb, item, {**more, "session": "s", "request_id": f"r{number}"})
                if answer is None:
                    actor = self._successor(harness)
                elif answer.code == PASSING:
                    self.refusals += 1
                    self.unknown += (answer.error or {}).get("outcome") == "unknown"
                    self._assert_others_go_on(harness)
                else:
                    break
            assert answer is not None, f"{self.fault}: {verb} {item} killed {TRIES_MAX} processes"
            assert answer.error is None, f"{self.fault}: {verb} {item} could not be done: {answer.error}"

    def _asked(self, actor: Actor, verb: str, item: str, kwargs: dict[str, object]) -> Answer | None:
        """Its answer; None if the process is gone."""
        try:
            return actor.ask(verb, item, **kwargs)
        except Gone:
            self.died = True
            return None

    def _assert_others_go_on(self, harness: Harness) -> None:
        """Whoever met the fault does not stand in the way of others while it thinks about it."""
        try:
            harness.board().add("meanwhile")
        except StoreUnavailable as refusal:
            raise AssertionError(f"{self.fault}: others are locked out: {refusal.message}") from refusal

    def _successor(self, harness: Harness) -> Actor:
        return harness.actor()

    def _judge(self, board: Board) -> None:
        for item, kinds in HISTORY.items():
            found = [event.kind for event in board.log(item)]
            assert found == kinds, f"{self.fault}: {item} has the history {found}"
        assert_sound(board, f"{self.fault}:")


def missing() -> str | None:
    """What this machine lacks for it."""
    if shutil.which("strace") is None:
        return "strace is not installed (apt-get install strace)"
    if os.system("strace -qq -e trace=none true 2>/dev/null") != 0:
        return "strace may not trace here (ptrace is forbidden)"
    return None
