"""The SQLite store under test: how the suite opens it, in this process and in others, sound or deliberately broken."""

from __future__ import annotations

import os
from typing import Any, cast

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.sqlite.store import SqliteStore
from dibs.testing.clock import FileClock, StoppingClock
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.store.contract import Store


def open_board(
    *, path: str, clock: str, broken: str | None = None, stopping: bool = False, settings: dict[str, Any] | None = None
) -> Board:
    """A handle on the board at `path`, which is made if there is none. `stopping`: by a clock that can stop it."""
    chosen = DEFAULTS.replace(**(settings or {}))
    read = StoppingClock(clock) if stopping else FileClock(clock)
    store = SqliteStore(path, chosen, create=True, clock=read)
    if broken is None:
        return Board(store, chosen, actor="tester")
    from dibs.testing.broken import BROKEN

    return Board(cast("Store", BROKEN[broken](store)), chosen, actor="tester")


def harness(folder: str | os.PathLike[str], broken: str | None = None, **settings: Any) -> Harness:
    """A new SQLite board in this folder, under a clock of its own."""
    clock = FileClock(os.path.join(folder, "clock"))
    kwargs = {"path": os.path.join(folder, "board.db"), "clock": clock.path, "broken": broken, "settings": settings}
    return Harness("dibs.testing.sqlite:open_board", kwargs, clock, folder)
