"""Random delays, so that many clients spread out, and random ids. The module `random` costs a third of a claim to
import, and its state would be the same in every forked child."""

from __future__ import annotations

import os
import time

RETRY_SECONDS = 0.01
RETRY_SECONDS_MAX = 0.5
#: Bounds the exponent: an outage may last for any number of attempts, and 2.0 ** 1024 overflows.
DOUBLINGS_MAX = 62
#: The 32 characters of random ids, without those that look alike.
_RANDOM_CHARACTERS = "abcdefghjkmnpqrstuvwxyz023456789"


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


def words_of_title(title: str) -> str:
    """The words of a title, as the beginning of an id."""
    lower = "".join(char if char.isascii() and char.isalnum() else " " for char in title.lower())
    return "-".join(lower.split())[:40].rstrip("-") or "item"


def id_from_title(title: str, tail: str | None = None) -> str:
    """A readable id that is unique without a look at other ids: the words of the title and a tail, by default of 40
    random bits. With 24 bits, one in fifteen boards with 1,500 items of the same title would have a duplicate id, and
    an item that equals the one with its id is not added."""
    return f"{words_of_title(title)}-{tail or ''.join(_RANDOM_CHARACTERS[byte % 32] for byte in os.urandom(8))}"


def _doubled(seconds: float, times: int, max_seconds: float) -> float:
    return min(max_seconds, seconds * 2.0 ** min(times, DOUBLINGS_MAX))
