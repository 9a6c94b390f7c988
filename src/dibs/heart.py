"""The heartbeat of a session: one thread renews what it holds, another knows in time when that did not get through.

They are two because a call to a store that is away may hang for longer than a claim lasts. Time is the machine's, and
goes on while it is suspended: who wakes up too late notices, tries once to keep what it had, and is told if it lost it.
"""

from __future__ import annotations

import os
import threading
import time

from dibs.errors import SessionNotFound
from dibs.patience import drawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: After a heartbeat that did not get through, the next comes after so long, drawn between half and all of it.
RETRY_SECONDS = 1.0
#: How late a thread may be woken before it is clear that the whole process stood still.
GAP_SECONDS = 0.5
#: A process that stood still is given so long to renew what it holds before that is taken for lost.
GRACE_SECONDS = 3.0
#: A suspended machine stops its timers, so nobody sleeps for long.
LOOK_SECONDS = 2.0
#: A heartbeat that is under way when the heart stops is waited for so long; then it is left to end by itself.
LAST_BEAT_SECONDS = 1.0
NEVER = float("inf")

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds of this machine, also those it slept through."""
    return time.clock_gettime(_CLOCK)


class Heart:
    def __init__(
        self, beat: Callable[[], float], lose: Callable[[float], None], losing_at: Callable[[], float | None]
    ) -> None:
        """`beat` renews and says how long until the next time; `lose` gives up what can no longer be kept at that
        instant; `losing_at` is when there will next be something to give up."""
        self._beat, self._lose, self._losing_at = beat, lose, losing_at
        self._changed = threading.Condition()
        self._stopped = False
        self._next = 0.0
        self._beats = 0
        self._beating = False
        self._pid = os.getpid()
        self._threads = [
            threading.Thread(target=run, name=f"dibs {what}", daemon=True)
            for what, run in (("heartbeat", self._go_on), ("watch", self._look_out))
        ]

    def start(self, seconds: float) -> None:
        self._next = clock() + seconds
        for thread in self._threads:
            thread.start()

    def by(self, seconds: float) -> None:
        """Beat within this time; whoever holds something new may need it sooner."""
        with self._changed:
            if clock() + seconds < self._next:
                self._next = clock() + seconds
            self._changed.notify_all()

    def stop(self) -> None:
        if self._pid != os.getpid():
            return  # in a child process there are no threads
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if threading.current_thread() not in self._threads:
            beats, watches = self._threads
            watches.join()
            # It may hang on a store that is away, and then dies with the process.
            beats.join(LAST_BEAT_SECONDS)

    def keep(self) -> None:
        """Give up what can no longer be kept, once a heartbeat had the chance to keep it."""
        if self._pid == os.getpid():
            with self._changed:
                self._try_to_keep()
        self._lose(clock())

    def _go_on(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and (left := self._next - clock()) > 0:
                    self._changed.wait(min(left, LOOK_SECONDS))
                if self._stopped:
                    return
                # What is asked for from here on is not known to this beat, and is not forgotten by it.
                self._next, self._beating = NEVER, True
            try:
                seconds = self._beat()
            except SessionNotFound:
                return
            except Exception:  # whatever it is, a heart that stopped would cost everything that is held
                seconds = drawn(RETRY_SECONDS)
            with self._changed:
                self._next, self._beating = min(self._next, clock() + seconds), False
                self._beats += 1
                self._changed.notify_all()

    def _look_out(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                losing_at, now = self._losing_at(), clock()
                pause = LOOK_SECONDS if losing_at is None else min(LOOK_SECONDS, max(0.0, losing_at - now))
                self._changed.wait(pause)
                if clock() > now + pause + GAP_SECONDS:
                    self._try_to_keep()
                if self._stopped:
                    return
            self._lose(clock())

    def _try_to_keep(self) -> None:
        """The process stood still: a heartbeat at once, before anything is given up that is still to be had."""
        end = clock() + GRACE_SECONDS
        # One that is under way may have begun before that, and says nothing.
        beats = self._beats + (2 if self._beating else 1)
        self._next = 0.0
        self._changed.notify_all()
        while not self._stopped and self._beats < beats and (left := end - clock()) > 0:
            self._changed.wait(left)
