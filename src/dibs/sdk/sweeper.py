"""Sweeping on behalf of a client that follows a board, so that changes by time are recorded when they happen.

An expiry, a due schedule or a lapsed offer changes the board only when some call records it, and the death of an owner
process notifies no client. A client that only follows the board would see none of them while no other client calls. So
it checks about twice a second, and sweeps only if something is due. Many followers check at different moments, and the
first of them to sweep does it for all.
"""

from __future__ import annotations

from time import monotonic, thread_time

from dibs.errors import StoreUnavailable, StoreUnusable
from dibs.randomness import uniform
from dibs.store.contract import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.model import Sweep
    from dibs.store.contract import Store

#: The shortest and the longest time between two checks: a change by time is seen within a second.
LOOK_SECONDS = 0.5
LOOK_SECONDS_MAX = 0.75
#: Each follower checks at a random moment within this time after a known due instant, so that not all sweep at once.
SPREAD_SECONDS = 0.2
#: The largest share of a processor that checks may use: a check of a thousand owner processes takes long.
LOOK_SHARE = 1 / 20
#: The delay before another sweep if one could not record what is due; doubled each time.
AGAIN_SECONDS = 0.05
AGAIN_SECONDS_MAX = 5.0
#: The delay for a client that may not write: it will not be allowed to soon, and a database logs each attempt.
FORBIDDEN_SECONDS = 60.0


class Sweeper:
    """Call `sweep_if_due` after `seconds_left`, or more often. A store that is unavailable, or that this client may not
    write to, is not an error: other clients sweep as well."""

    def __init__(
        self,
        store: Store,
        sweep: Callable[[], Sweep],
        reap_dead_owners: Callable[[], bool],
        *,
        every_seconds: float | None = None,
    ) -> None:
        """`every_seconds`: also sweep at this interval when nothing is due, because a sweep deletes old records too."""
        self._store, self._sweep, self._reap_dead_owners = store, sweep, reap_dead_owners
        self._every_seconds = every_seconds
        self._check_at = self._swept_at = monotonic()
        self._again_seconds = AGAIN_SECONDS

    def seconds_left(self) -> float:
        return max(0.0, self._check_at - monotonic())

    def sweep_if_due(self) -> None:
        if monotonic() < self._check_at:
            return
        try:
            due = self._store.due_seconds()
            pause = self._sweep_due() if due == 0 else self._check_owners(due)
        except StoreUnusable:
            pause = FORBIDDEN_SECONDS
        except StoreUnavailable:
            pause = self._backoff()
        self._check_at = monotonic() + pause

    def _sweep_due(self) -> float:
        """Something is due. Returns the seconds until the next check, as do the methods below."""
        self._swept_at = monotonic()
        swept = self._sweep()
        if not (swept.expired or swept.due or swept.offers):
            return self._backoff()
        self._again_seconds = AGAIN_SECONDS
        return 0.0 if swept.more else AGAIN_SECONDS

    def _check_owners(self, due: float | None) -> float:
        """Nothing is due yet, but owners may have died."""
        self._again_seconds = AGAIN_SECONDS
        begun = thread_time()
        if self._every_seconds is not None and monotonic() - self._swept_at >= self._every_seconds:
            self._swept_at = monotonic()
            self._sweep()
        else:
            self._reap_dead_owners()
        pause = uniform(LOOK_SECONDS, LOOK_SECONDS_MAX)
        if due is not None and due <= LOOK_SECONDS_MAX:
            pause = due + uniform(0, SPREAD_SECONDS)
        return max(pause, (thread_time() - begun) / LOOK_SHARE)

    def _backoff(self) -> float:
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
            self._sweeper.sweep_if_due()
            left = end - monotonic()
            if self._watch.wait(max(0.0, min(left, self._sweeper.seconds_left()))):
                return True
            if left <= 0:
                return False

    def close(self) -> None:
        self._watch.close()
