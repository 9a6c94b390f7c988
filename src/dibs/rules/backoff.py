"""How long to wait before trying again: exponential, capped, with full jitter so that a crowd spreads out."""

from __future__ import annotations

MAX_DOUBLINGS = 62


def ceiling_seconds(attempt: int, *, base_seconds: float, cap_seconds: float) -> float:
    """The longest wait before try number `attempt` (from 0): doubled each time, never above the cap."""
    return min(cap_seconds, base_seconds * 2.0 ** min(attempt, MAX_DOUBLINGS))


def delay_seconds(attempt: int, uniform: float, *, base_seconds: float, cap_seconds: float) -> float:
    """A wait drawn from nothing to the ceiling; `uniform` is the draw, from 0 to 1."""
    return uniform * ceiling_seconds(attempt, base_seconds=base_seconds, cap_seconds=cap_seconds)
