"""Jitter for retries. The module `random` would cost a third of a claim to import."""

from __future__ import annotations

import os
import time

PAUSE_SECONDS_MAX = 0.5


def uniform() -> float:
    """A random number from 0 to 1."""
    return int.from_bytes(os.urandom(7), "big") / 2**56


def pause(tries: int) -> None:
    """Sleep before another try: exponential backoff with full jitter."""
    time.sleep(uniform() * min(PAUSE_SECONDS_MAX, 0.01 * 2**tries))
