"""The heartbeat of a session: one thread renews its claims, another notices when renewals do not get through in time.

There are two threads because a call to an unreachable store may block for longer than a claim lasts. The clock includes
the time that the machine was suspended: a process that wakes up too late tries once to renew its claims, and those that
it cannot renew are marked as lost.
"""

from __future__ import annotations

import contextlib
import threading
import time

from dibs.errors import SessionNotFound
from dibs.randomness import jittered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The delay after a heartbeat that failed; jittered.
RETRY_SECONDS = 1.0
#: A thread that wakes up later than this was not scheduled: the whole process was stopped.
GAP_SECONDS = 0.5
#: How long a process that was stopped has to renew its claims before they count as lost.
GRACE_SECONDS = 3.0
#: The longest sleep, because timers stand still while the machine is suspended.
SLEEP_SECONDS_MAX = 2.0
#: How long `stop` waits for a heartbeat in progress.
LAST_BEAT_SECONDS = 1.0
#: How long a request for claims lets an overdue report go first.
REPORT_SECONDS = 1.0
NEVER = float("inf")

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds since this machine booted, including suspended time."""
    return time.clock_gettime(_CLOCK)


class HeartbeatLoop:
    def __init__(
        self, beat: Callable[[], float], lose_expired: Callable[[float], None], first_expiry: Callable[[], float | None]
    ) -> None:
        """`beat` renews and returns the seconds until the next heartbeat. `lose_expired` marks the claims as lost that
        can no longer be relied on at the given time; `first_expiry` is when that will happen next."""
        self._beat, self._lose_expired, self._first_expiry = beat, lose_expired, first_expiry
        self._changed = threading.Condition()
        self._stopped = False
        self._next = 0.0
        self._beats = 0
        self._beating = False
        self._threads = [
            threading.Thread(target=run, name=f"dibs {what}", daemon=True)
            for what, run in (("heartbeat", self._run_heartbeats), ("watch", self._run_watchdog))
        ]

    def start(self, seconds: float) -> None:
        self._next = clock() + seconds
        for thread in self._threads:
            thread.start()

    def beat_within(self, seconds: float) -> None:
        """Bring the next heartbeat forward: a new claim may expire before it."""
        with self._changed:
            self._next = min(self._next, clock() + seconds)
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if threading.current_thread() not in self._threads:
            heartbeats, watchdog = self._threads
            watchdog.join()
            # A call to an unreachable store may block for longer; the thread ends with the process.
            heartbeats.join(LAST_BEAT_SECONDS)

    def try_to_renew(self) -> None:
        """Beat at once, and wait until a heartbeat that began after this call has ended, or for the grace period."""
        with self._changed:
            self._try_to_renew()

    def _run_heartbeats(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (left := self._next - clock()) > 0:
                    self._changed.wait(min(left, SLEEP_SECONDS_MAX))
                if self._stopped:
                    return
                # A claim that is granted from here on needs a heartbeat after this one.
                self._next, self._beating = NEVER, True
            try:
                seconds = self._beat()
            except SessionNotFound:
                return
            except Exception:  # whatever it is: without heartbeats the session would lose every claim
                seconds = jittered(RETRY_SECONDS)
            with self._changed:
                self._next, self._beating = min(self._next, clock() + seconds), False
                self._beats += 1
                self._changed.notify_all()

    def _run_watchdog(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                expiry, now = self._first_expiry(), clock()
                pause = SLEEP_SECONDS_MAX if expiry is None else min(SLEEP_SECONDS_MAX, max(0.0, expiry - now))
                self._changed.wait(pause)
                if clock() > now + pause + GAP_SECONDS:
                    self._try_to_renew()
                if self._stopped:
                    return
            self._lose_expired(clock())

    def _try_to_renew(self) -> None:
        end = clock() + GRACE_SECONDS
        # A heartbeat in progress may have begun before the process was stopped, so it proves nothing.
        beats = self._beats + (2 if self._beating else 1)
        self._next = 0.0
        self._changed.notify_all()
        while not self._stopped and self._beats < beats and (left := end - clock()) > 0:
            self._changed.wait(left)


class ReportGate:
    """Keeps heartbeats that report the held claims apart from requests for new claims.

    The store releases live claims that a report does not list. A claim that is granted while the report is on its way
    is not listed, so a report and requests exclude each other. Requests run side by side.
    """

    def __init__(self, beat_now: Callable[[], None]) -> None:
        self._beat_now = beat_now
        self._changed = threading.Condition()
        self._requests = self._queued = 0
        self._reporting = self._report_is_due = False

    @contextlib.contextmanager
    def requesting(self) -> Iterator[None]:
        with self._changed:
            if self._report_is_due and self._requests == 0:
                self._beat_now()
                self._changed.wait_for(lambda: not self._report_is_due, REPORT_SECONDS)
                self._report_is_due = False
            self._queued += 1
            try:
                while self._reporting:
                    self._changed.wait()
            finally:
                self._queued -= 1
            self._requests += 1
        try:
            yield
        finally:
            with self._changed:
                self._requests -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def reporting(self) -> Iterator[bool]:
        """Yields whether this heartbeat may report the claims; if not, it is sent without them."""
        with self._changed:
            # A request that waited for a report goes before the next report.
            may_report = self._requests == 0 and self._queued == 0
            self._reporting, self._report_is_due = may_report, not may_report
            self._changed.notify_all()
        try:
            yield may_report
        finally:
            with self._changed:
                self._reporting = False
                self._changed.notify_all()
