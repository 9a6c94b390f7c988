"""How tests wait for what another thread, process or program does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

#: Far beyond what anything here takes on a busy machine: the bound of a test that would wait for ever.
PATIENCE_SECONDS = 60
#: How long `until` pauses at least, and how much longer than its look took: a look that starts a command would else
#: take the processor from what it waits for.
PAUSE_SECONDS_MIN, PAUSE_FACTOR = 0.01, 3

T = TypeVar("T")


def until(
    condition: Callable[[], T | Literal[False] | None],
    what: str = "it comes true",
    *,
    seconds: float = PATIENCE_SECONDS,
) -> T:
    """Look until the condition holds, and return what it found. For what gives no signal to wait for."""
    began = time.monotonic()
    end = began + seconds
    while not (found := condition()):
        looked = time.monotonic()
        assert looked < end, f"not within {seconds:g} s: {what}"
        time.sleep(max(PAUSE_SECONDS_MIN, PAUSE_FACTOR * (looked - began)))
        began = time.monotonic()
    return found
