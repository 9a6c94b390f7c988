"""A store that is away for a moment is asked again: after 100 ms, then each time after twice as long.

Sessions go on until their claim would be lost; a command asks three times more, and then leaves it to its caller.
"""

from __future__ import annotations

import os
import time

from dibs.errors import StoreUnavailable, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

#: The first pause.
BACKOFF_SECONDS = 0.1
#: A command asks so often after the first time: after 100, 200 and 400 ms.
REPEATS_MAX = 3
#: Not, however, if it has taken longer by then: a store that waits for its own lock has had its patience.
COMMAND_SECONDS = 2.0


def drawn(seconds: float) -> float:
    """Between half and all of it, so that a crowd spreads out."""
    return seconds * (0.5 + os.urandom(1)[0] / 512)


def pause_seconds(tries: int, most_seconds: float) -> float:
    """How long to wait after so many tries."""
    return drawn(min(most_seconds, BACKOFF_SECONDS * 2.0**tries))


def ask_again(ask: Callable[[], T], error: StoreUnavailable, *, began: float, repeatable: bool) -> T:
    """Ask what was answered with this error a few times more. Where it is not known what became of it, only what is
    `repeatable`: it has a request id."""
    for tries in range(REPEATS_MAX):
        is_unknown = error.facts.get("outcome") == "unknown" and not repeatable
        if is_unknown or isinstance(error, StoreUnusable) or time.monotonic() - began > COMMAND_SECONDS:
            break
        time.sleep(pause_seconds(tries, COMMAND_SECONDS))
        try:
            return ask()
        except StoreUnavailable as again:
            error = again
    raise error
