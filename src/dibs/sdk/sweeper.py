"""Sweeping for callers that follow a board: what time does to it is recorded when it happens, and so is told.

An expiry, a schedule or a lapsed offer changes nothing on a board until a caller records it, and the death of an owner
process rings no bell. A caller that follows the board would hear of neither while nobody else asks for anything. So it
looks itself, a few times a second, and sweeps only if something is due: of many followers, each looks at a moment of
its own, and the first one to sweep spares the others the work.
"""

from __future__ import annotations

import os
from time import monotonic, thread_time

from dibs.errors import StoreUnavailable, StoreUnusable
from dibs.store.contract import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.model import Sweep
    from dibs.store.contract import Store

#: The shortest and the longest between two looks: what happens is told within a second of its instant.
LOOK_SECONDS = 0.5
LOOK_SECONDS_MAX = 0.75
#: So long after an instant that is known, at most, followers look: not all of them at once.
SPREAD_SECONDS = 0.2
#: Looking at a thousand owner processes takes longer. No more than this part of a processor is spent on looking.
LOOK_SHARE = 1 / 20
#: What is due and could not be moved on is tried again after this, and twice as long each time.
AGAIN_SECONDS = 0.05
AGAIN_SECONDS_MAX = 5.0
#: A caller that may not write is not going to be allowed to soon, and a database logs each attempt.
FORBIDDEN_SECONDS = 60.0


class Sweeper:
    """Call `look` when `seconds_left` are over, or more often. That the store is away, or may not be written by this
    caller, is no error: others sweep, too."""

    def __init__(
        self,
        store: Store,
        sweep: Callable[[], Sweep],
        reap_dead_owners: Callable[[], bool],
        *,
        every_seconds: float | None = None,
    ) -> None:
        """`every_seconds`: also sweep so often if nothing is due, for what only a sweep forgets."""
        self._store, self._sweep, self._reap_dead_owners = store, sweep, reap_dead_owners
        self._every_seconds = every_seconds
        self._look_at = self._swept_at = monotonic()
        self._again_seconds = AGAIN_SECONDS

    def seconds_left(self) -> float:
        return max(0.0, self._look_at - monotonic())

    def look(self) -> None:
        if monotonic() < self._look_at:
            return
        try:
            due = self._store.due_seconds()
            pause = self._move_on() if due == 0 else self._look_around(due)
        except StoreUnusable:
            pause = FORBIDDEN_SECONDS
        except StoreUnavailable:
            pause = self._longer_pause()
        self._look_at = monotonic() + pause

    def _move_on(self) -> float:
        """Sweep what is due; how long until the next look."""
        self._swept_at = monotonic()
        swept = self._sweep()
        if not (swept.expired or swept.due or swept.offers):
            return self._longer_pause()
        self._again_seconds = AGAIN_SECONDS
        return 0.0 if swept.more else AGAIN_SECONDS

    def _look_around(self, due: float | None) -> float:
        """Nothing is due, and owners may have died; how long until the next look."""
        self._again_seconds = AGAIN_SECONDS
        begun = thread_time()
        if self._every_seconds is not None and monotonic() - self._swept_at >= self._every_seconds:
            self._swept_at = monotonic()
            self._sweep()
        else:
            self._reap_dead_owners()
        pause = drawn(LOOK_SECONDS, LOOK_SECONDS_MAX)
        if due is not None and due <= LOOK_SECONDS_MAX:
            pause = due + drawn(0, SPREAD_SECONDS)
        return max(pause, (thread_time() - begun) / LOOK_SHARE)

    def _longer_pause(self) -> float:
        pause = self._again_seconds
        self._again_seconds = min(2 * pause, AGAIN_SECONDS_MAX)
        return pause


class SweepingWatch(Watch):
    """A watch that sweeps while its caller waits."""

    def __init__(self, watch: Watch, sweeper: Sweeper) -> None:
        self._watch, self._sweeper = watch, sweeper

    def wait(self, timeout_seconds: float) -> bool:
        end = monotonic() + timeout_seconds
        while True:
            self._sweeper.look()
            left = end - monotonic()
            if self._watch.wait(max(0.0, min(left, self._sweeper.seconds_left()))):
                return True
            if left <= 0:
                return False

    def close(self) -> None:
        self._watch.close()


def drawn(low: float, high: float) -> float:
    """A number between the two, so that a crowd spreads out."""
    return low + (high - low) * int.from_bytes(os.urandom(2), "big") / 2**16
