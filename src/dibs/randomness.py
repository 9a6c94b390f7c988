"""Random delays, so that many clients spread out, and random ids. The module `random` costs a third of a claim to
import, and its state would be the same in every forked child."""

from __future__ import annotations

import os
import time

RETRY_SECONDS = 0.01
RETRY_SECONDS_MAX = 0.5
#: Bounds the exponent: an outage may last for any number of attempts, and 2.0 ** 1024 overflows.
DOUBLINGS_MAX = 62


def uniform(low: float = 0.0, high: float = 1.0) -> float:
    """A number from `low` up to `high`."""
    return low + (high - low) * int.from_bytes(os.urandom(7), "big") / 2**56


def jittered(seconds: float) -> float:
    """Between half of this time and all of it."""
    return uniform(seconds / 2, seconds)


def backoff_seconds(attempt: int, *, base_seconds: float, max_seconds: float) -> float:
    """The delay before this attempt, counted from 0: doubled each time up to the maximum, and jittered."""
    return jittered(_doubled(base_seconds, attempt, max_seconds))


def sleep_before_retry(attempt: int) -> None:
    """Sleep briefly before repeating a request whose connection broke: longer each time, with full jitter."""
    time.sleep(uniform(0, _doubled(RETRY_SECONDS, attempt, RETRY_SECONDS_MAX)))


def request_id() -> str:
    """A new idempotency key."""
    return os.urandom(12).hex()


def _doubled(seconds: float, times: int, max_seconds: float) -> float:
    return min(max_seconds, seconds * 2.0 ** min(times, DOUBLINGS_MAX))
