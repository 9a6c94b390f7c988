"""Other boards of the kind under test: the same data under other settings, or a new, empty one beside it.

This asks two things of a recipe: it takes `settings`, a dict of what differs from the defaults, and `path`, where the
data is.
"""

from __future__ import annotations

import time

from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board

PATIENCE_SECONDS = 60.0


def with_settings(harness: Harness, **settings: Any) -> Harness:
    """The same data, its rules under other settings; to be closed by whoever asked for it."""
    recipe = harness.recipe()
    kwargs = {**recipe["kwargs"], "settings": {**recipe["kwargs"].get("settings", {}), **settings}}
    return Harness(recipe["call"], kwargs, harness.clock, harness.folder)


def elsewhere(harness: Harness, name: str = "other") -> Harness:
    """An empty board of the same kind, under the same clock; to be closed by whoever asked for it."""
    recipe = harness.recipe()
    kwargs = {**recipe["kwargs"], "path": f"{recipe['kwargs']['path']}-{name}"}
    return Harness(recipe["call"], kwargs, harness.clock, harness.folder)


def until(board: Board, true: Callable[[], bool], what: str) -> None:
    """Wait for the board to be so, woken by its changes."""
    watch = board.watch()
    end = time.monotonic() + PATIENCE_SECONDS
    try:
        while not true():
            assert time.monotonic() < end, f"not within {PATIENCE_SECONDS:g} s: {what}"
            watch.wait(0.5)
    finally:
        watch.close()
