"""The vault store under test: how the suite opens it, in this process and in others."""

from __future__ import annotations

import os
from typing import Any

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.vault.store import VaultStore
from dibs.testing.clock import FileClock, StoppingClock
from dibs.testing.harness import Harness


def open_board(*, path: str, clock: str, stopping: bool = False, settings: dict[str, Any] | None = None) -> Board:
    """A handle on the vault at `path`, which is made if there is none."""
    chosen = DEFAULTS.replace(**(settings or {}))
    read = StoppingClock(clock) if stopping else FileClock(clock)
    return Board(VaultStore(path, chosen, create=True, clock=read), chosen, actor="tester")


class VaultHarness(Harness):
    def __init__(self, kwargs: dict[str, Any], clock: FileClock, folder: str | os.PathLike[str]) -> None:
        super().__init__("dibs.testing.vault:open_board", kwargs, clock, folder)
        self._kwargs, self._clock = kwargs, clock

    def elsewhere(self) -> VaultHarness:
        path = os.path.join(self.folder, f"other-{os.urandom(4).hex()}")
        return VaultHarness({**self._kwargs, "path": path}, self._clock, self.folder)


def harness(folder: str | os.PathLike[str], **settings: Any) -> VaultHarness:
    """A new vault in this folder, under a clock of its own."""
    clock = FileClock(os.path.join(folder, "clock"))
    kwargs = {"path": os.path.join(folder, "vault"), "clock": clock.path, "settings": settings}
    return VaultHarness(kwargs, clock, folder)
