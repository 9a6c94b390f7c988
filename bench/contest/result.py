"""How one run went, over all of its workers."""

from __future__ import annotations

from typing import NamedTuple

from bench.contest.window import Window


class Result(NamedTuple):
    pairs_per_second: float
    worst_ms: float
    slowest_of_fastest: float


def of_workers(workers: list[tuple[float, float]], seconds: float) -> Result:
    """From the pairs and the worst wait of each."""
    pairs = [one for one, _ in workers]
    return Result(
        pairs_per_second=sum(pairs) / seconds,
        worst_ms=max(worst for _, worst in workers),
        slowest_of_fastest=min(pairs) / max(1.0, *pairs),
    )


def of_windows(windows: list[Window], seconds: float) -> Result:
    return of_workers([(window.pairs, window.worst_ms) for window in windows], seconds)
