"""The vault store under test: how the suite opens it, in this process and in others; alone, or as a clone of a hub."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.vault.git import hub
from dibs.store.vault.store import VaultStore
from dibs.testing.clock import FileClock
from dibs.testing.harness import Harness
from tests.kit.stopping_clock import StoppingClock


def open_board(*, path: str, clock: str, stopping: bool = False, settings: dict[str, Any] | None = None) -> Board:
    """A handle on the vault at `path`, which is made if there is none."""
    chosen = DEFAULTS.replace(**(settings or {}))
    read = StoppingClock(clock) if stopping else FileClock(clock)
    return Board(VaultStore(path, chosen, create=True, clock=read), chosen, actor="tester")


class VaultHarness(Harness):
    def __init__(self, kwargs: dict[str, Any], clock: FileClock, folder: str | os.PathLike[str]) -> None:
        super().__init__("tests.kit.vault:open_board", kwargs, clock, folder)
        self._kwargs, self._clock = kwargs, clock

    def elsewhere(self) -> VaultHarness:
        path = os.path.join(self.folder, f"other-{os.urandom(4).hex()}")
        return VaultHarness({**self._kwargs, "path": path}, self._clock, self.folder)


def harness(folder: str | os.PathLike[str], **settings: Any) -> VaultHarness:
    """A new vault in this folder, under a clock of its own."""
    clock = FileClock(os.path.join(folder, "clock"))
    kwargs = {"path": os.path.join(folder, "vault"), "clock": clock.path, "settings": settings}
    return VaultHarness(kwargs, clock, folder)


class SyncedHarness(VaultHarness):
    """A vault whose remote has to agree to every claim and every end."""

    step_seconds = 0.2

    def elsewhere(self) -> SyncedHarness:
        path = os.path.join(self.folder, f"other-{os.urandom(4).hex()}")
        make_clone(path, f"{path}.git")
        return SyncedHarness({**self._kwargs, "path": path}, self._clock, self.folder)


def synced_harness(folder: str | os.PathLike[str], **settings: Any) -> SyncedHarness:
    """A new vault in this folder, with a hub beside it, under a clock of its own."""
    clock = FileClock(os.path.join(folder, "clock"))
    path = os.path.join(folder, "vault")
    make_clone(path, os.path.join(folder, "hub.git"))
    return SyncedHarness({"path": path, "clock": clock.path, "settings": settings}, clock, folder)


def make_clone(path: str, at: str) -> None:
    """An empty repository whose branch follows that of a new hub."""
    hub.make(at)
    for words in (
        ("init", "--quiet", f"--initial-branch={hub.BRANCH}", path),
        ("-C", path, "config", "user.name", "tester"),
        ("-C", path, "config", "user.email", "tester@example.org"),
        ("-C", path, "remote", "add", "origin", at),
        ("-C", path, "config", f"branch.{hub.BRANCH}.remote", "origin"),
        ("-C", path, "config", f"branch.{hub.BRANCH}.merge", f"refs/heads/{hub.BRANCH}"),
    ):
        subprocess.run(["git", *words], check=True, capture_output=True, timeout=60)
