"""How a suite opens one set of data: any number of handles here, and the same in other processes, by a recipe.

A recipe is a dotted function and its arguments, plain enough to be JSON; called, it gives a board. One of the arguments
is `settings`, a dict of what differs from the defaults. A store that can say how it is opened so can be run through the
whole suite, by a harness that also makes a board `elsewhere`.
"""

from __future__ import annotations

import importlib
import os

from dibs.board import Board
from dibs.testing.actors import Actor, Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any, Self

    from dibs.testing.clock import Clock
    from dibs.testing.proxy import CuttingProxy


class Wire:
    """A handle on the data whose connection goes through a proxy that can cut it."""

    def __init__(self, board: Board, proxy: CuttingProxy) -> None:
        self.board, self.proxy = board, proxy


class Harness:
    """One set of data under test. `call` is `package.module:function`; with `kwargs` it gives a new handle."""

    #: How long a claim takes at least, where that is long: others have to be asked. Tests of speed allow for it.
    step_seconds = 0.0

    def __init__(self, call: str, kwargs: dict[str, Any], clock: Clock, folder: str | os.PathLike[str]) -> None:
        self.clock = clock
        self.folder = os.fspath(folder)
        self._recipe: dict[str, Any] = {"call": call, "kwargs": kwargs}
        self._boards: list[Board] = []
        self._actors: list[Actor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def recipe(self) -> dict[str, Any]:
        """With this another process opens the same board: see `open_recipe`."""
        return self._recipe

    def board(self) -> Board:
        """A new handle on the data, closed with the harness."""
        board = open_recipe(self._recipe)
        self._boards.append(board)
        return board

    def with_settings(self, **settings: Any) -> Harness:
        """The same data, its rules under other settings; to be closed by whoever asked for it."""
        kwargs = self._recipe["kwargs"]
        changed = {**kwargs, "settings": {**(kwargs.get("settings") or {}), **settings}}
        return Harness(self._recipe["call"], changed, self.clock, self.folder)

    def as_in_use(self) -> Harness:
        """The same data, reached as it is outside of tests: a server sweeps by itself. To be closed by whoever asked
        for it."""
        return self.with_settings()

    def elsewhere(self) -> Harness:
        """An empty board of the same kind, under the same clock; to be closed by whoever asked for it."""
        raise NotImplementedError(f"{type(self).__name__} does not say how another board is made")

    def wire(self) -> AbstractContextManager[Wire] | None:
        """A handle over a connection that tests can cut; None for a store that a process uses without one."""
        return None

    def actor(self) -> Actor:
        """A new process with a handle of its own, ended with the harness."""
        return self.actors(1)[0]

    def actors(self, count: int) -> list[Actor]:
        """Several of them; they start side by side, and each is ready when this returns."""
        started = [Actor(self._recipe, self.folder) for _ in range(count)]
        self._actors.extend(started)
        for actor in started:
            actor.await_ready()
        return started

    def fewer(self, count: int, part: int = 5) -> int:
        """So many, or that part of them where each takes its time."""
        return count // part if self.step_seconds else count

    def gate(self) -> Gate:
        """A gate at which actors gather, to be let through together."""
        return Gate(os.path.join(self.folder, f"gate-{os.urandom(4).hex()}"))

    def close(self) -> None:
        for actor in self._actors:
            actor.end()
        for board in self._boards:
            board.close()
        self._actors, self._boards = [], []


def open_recipe(recipe: dict[str, Any]) -> Board:
    board = resolve(recipe["call"])(**recipe["kwargs"])
    if not isinstance(board, Board):
        raise TypeError(f"{recipe['call']} gave {board!r}, which is no board")
    return board


def resolve(dotted: str) -> Callable[..., Any]:
    """The function that `package.module:name` names."""
    module, _, name = dotted.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found
