"""What one worker got done between the end of its warm-up and the end of the run."""

from __future__ import annotations

import time

#: Long enough for connections, plans and caches to be what they are for the rest of the run.
WARM_UP_SECONDS = 0.4


class Window:
    """`worst_ms` is the longest that the worker went without getting on: the whole of it, if it got nothing."""

    def __init__(self, seconds: float, begin: float | None = None) -> None:
        self.begin = time.perf_counter() + WARM_UP_SECONDS if begin is None else begin
        self.end = self.begin + seconds
        self.pairs = 0.0
        self._last = self.begin
        self._worst_seconds = 0.0

    @property
    def seconds_left(self) -> float:
        return self.end - time.perf_counter()

    def got_on(self, pairs: int) -> None:
        """So many more were claimed and ended, just now."""
        now = time.perf_counter()
        self._count(pairs if self.begin <= now < self.end else 0, now)

    def got_on_from(self, since: float, pairs: int, at: float) -> None:
        """So many more were claimed and ended at some time: what was done of them within the window counts."""
        inside = min(at, self.end) - max(since, self.begin)
        self._count(pairs * max(0.0, inside) / max(at - since, 1e-9), at)

    def _count(self, pairs: float, at: float) -> None:
        self.pairs += pairs
        if self.begin <= at < self.end:
            self._worst_seconds = max(self._worst_seconds, at - self._last)
            self._last = at

    @property
    def worst_ms(self) -> float:
        return max(self._worst_seconds, self.end - self._last) * 1000
