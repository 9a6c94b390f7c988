"""Retries of a store that is unavailable for a moment: after 100 ms, then each time after twice as long.

A session retries until its claim would be lost. A command retries three times, and then leaves it to its caller.
"""

from __future__ import annotations

import time

from dibs import randomness
from dibs.errors import StoreUnavailable, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

FIRST_DELAY_SECONDS = 0.1
#: A command retries this many times: after 100, 200 and 400 ms.
RETRIES_MAX = 3
#: No retry of a command begins later than this: a store that waited for its own lock has taken that long already.
COMMAND_SECONDS = 2.0


def delay_seconds(attempt: int, max_seconds: float) -> float:
    """The delay after this attempt, counted from 0."""
    return randomness.backoff_seconds(attempt, base_seconds=FIRST_DELAY_SECONDS, max_seconds=max_seconds)


def retry(ask: Callable[[], T], error: StoreUnavailable, *, began: float, repeatable: bool) -> T:
    """Retry a call that raised this error. A call whose outcome is unknown is retried only if it is `repeatable`, that
    is, if it has a request id."""
    for attempt in range(RETRIES_MAX):
        is_unknown = error.facts.get("outcome") == "unknown" and not repeatable
        if is_unknown or isinstance(error, StoreUnusable) or time.monotonic() - began > COMMAND_SECONDS:
            break
        time.sleep(delay_seconds(attempt, COMMAND_SECONDS))
        try:
            return ask()
        except StoreUnavailable as again:
            error = again
    raise error
