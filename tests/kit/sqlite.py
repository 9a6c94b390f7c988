"""The SQLite store under test: how the suite opens it, in this process and in others, sound or deliberately broken."""

from __future__ import annotations

import os
from typing import Any, cast

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.sqlite.store import SqliteStore
from dibs.testing.clock import FileClock
from dibs.testing.harness import Harness
from tests.kit.broken import BROKEN
from tests.kit.stopping_clock import StoppingClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.store.contract import Store
    from dibs.store.sqlite.transaction import SqliteTransaction


def open_board(
    *, path: str, clock: str, broken: str | None = None, stopping: bool = False, settings: dict[str, Any] | None = None
) -> Board:
    """A handle on the board at `path`, which is made if there is none. `stopping`: by a clock that can stop it."""
    chosen = DEFAULTS.replace(**(settings or {}))
    read = StoppingClock(clock) if stopping else FileClock(clock)
    store = SqliteStore(path, chosen, create=True, clock=read)
    if broken is None:
        return Board(store, chosen, actor="tester")
    mistaken = BROKEN[broken](store, lambda sql, parameters: _behind_its_back(store, sql, parameters))
    return Board(cast("Store", mistaken), chosen, actor="tester")


class SqliteHarness(Harness):
    def __init__(self, kwargs: dict[str, Any], clock: FileClock, folder: str | os.PathLike[str]) -> None:
        super().__init__("tests.kit.sqlite:open_board", kwargs, clock, folder)
        self._kwargs, self._clock = kwargs, clock

    def elsewhere(self) -> SqliteHarness:
        path = os.path.join(self.folder, f"other-{os.urandom(4).hex()}.db")
        return SqliteHarness({**self._kwargs, "path": path}, self._clock, self.folder)


def harness(folder: str | os.PathLike[str], broken: str | None = None, **settings: Any) -> SqliteHarness:
    """A new SQLite board in this folder, under a clock of its own."""
    clock = FileClock(os.path.join(folder, "clock"))
    kwargs = {"path": os.path.join(folder, "board.db"), "clock": clock.path, "broken": broken, "settings": settings}
    return SqliteHarness(kwargs, clock, folder)


def _behind_its_back(store: SqliteStore, sql: str, parameters: dict[str, Any]) -> None:
    """Change rows past the rules, in a transaction of the store's own."""
    store.write(lambda transaction: cast("SqliteTransaction", transaction)._cursor.execute(sql, parameters))
