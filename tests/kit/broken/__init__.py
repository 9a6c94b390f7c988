"""Stores with one mistake each, to show that the suite finds it: `BROKEN[name](a sound store, how to write SQL to it)`.

Each mistake is one that real systems have made. Most are told at the contract, so they can be made with any store; a
few write rows behind the rules' back.
"""

from __future__ import annotations

from tests.kit.broken import (
    calling_out,
    choosing,
    giving,
    guarding,
    handing_over,
    keeping,
    living,
    nesting,
    overlooking,
    passing,
    queueing,
    reopening,
    resting,
    telling,
    viewing,
    watching,
)
from tests.kit.broken.mistake import BROKEN, Mistake

__all__ = [
    "BROKEN",
    "Mistake",
    "calling_out",
    "choosing",
    "giving",
    "guarding",
    "handing_over",
    "keeping",
    "living",
    "nesting",
    "overlooking",
    "passing",
    "queueing",
    "reopening",
    "resting",
    "telling",
    "viewing",
    "watching",
]
