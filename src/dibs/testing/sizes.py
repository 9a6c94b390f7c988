"""How large the racing, crash and model tests are: small enough for every commit, multiplied in a soak.

`DIBS_SOAK=1` multiplies by ten, any greater number by that number.
"""

from __future__ import annotations

import os
import random

_SOAK = int(os.environ.get("DIBS_SOAK") or 0)
FACTOR = 1 if _SOAK <= 0 else 10 if _SOAK == 1 else _SOAK


def times(size: int) -> int:
    return size * FACTOR


def rounds(few: int, many: int) -> int:
    """Of what few show already: so few for every commit; in a soak the many, multiplied like all others."""
    return few if FACTOR == 1 else times(many)


def seed() -> int:
    """A new seed, or that of `DIBS_SEED`, which a failure prints so that it can be had again."""
    given = os.environ.get("DIBS_SEED")
    return int(given) if given else random.SystemRandom().randrange(1 << 32)
