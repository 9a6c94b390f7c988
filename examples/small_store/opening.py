"""How the conformance suite opens the small store, in its own process and in others."""

from __future__ import annotations

import os
from typing import Any

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.testing.clock import FileClock
from dibs.testing.harness import Harness
from examples.small_store.store import SmallStore


def open_board(*, path: str, clock: str, settings: dict[str, Any] | None = None) -> Board:
    chosen = DEFAULTS.replace(**(settings or {}))
    return Board(SmallStore(path, chosen, FileClock(clock)), chosen, actor="tester")


class SmallHarness(Harness):
    def __init__(self, folder: str | os.PathLike[str], clock: FileClock, name: str = "board") -> None:
        kwargs = {"path": os.path.join(folder, name), "clock": clock.path}
        super().__init__("examples.small_store.opening:open_board", kwargs, clock, folder)
        self._clock = clock

    def elsewhere(self) -> SmallHarness:
        return SmallHarness(self.folder, self._clock, f"other-{os.urandom(4).hex()}")
