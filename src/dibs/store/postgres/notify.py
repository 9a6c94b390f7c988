"""Being woken: NOTIFY tells, outside the transactions it tells of, and LISTEN hears, while somebody waits.

A NOTIFY inside a claim's transaction would make all commits take turns, so it is sent afterwards: the first change at
once, further ones together, ten times a second at most, and only while somebody listens, since each one is a commit.
What became free does not wait for that. Where nobody listened, nobody is told for a moment; who has just begun to looks
for itself until that is over. What concerns one waiter's ticket is told by the transaction itself, to that waiter
alone. Behind a pooler nothing can be heard; there, a waiter looks, less and less often.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time

import psycopg

from dibs.errors import DibsError, StoreUnavailable
from dibs.files.fork import ForkAware
from dibs.randomness import uniform
from dibs.store.contract import Watch
from dibs.store.postgres.connections import connect, explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.store.postgres.connections import Connection, Pool

CHANNEL = "dibs"
#: Whoever listens shares a lock meanwhile: if it can be had alone, there is nobody to tell.
NOTIFY = "SELECT pg_catalog.pg_notify('dibs', '') WHERE NOT pg_catalog.pg_try_advisory_xact_lock(25703, 0)"
LISTENING = "SELECT pg_catalog.pg_advisory_lock_shared(25703, 0)"
TOGETHER_SECONDS = 0.1
#: What became free is told at once, unless something else just was.
URGENT_SECONDS = 0.01
#: For so long it is believed that nobody listens, and so long after it has begun to, a listener looks now and then.
NOBODY_SECONDS = 0.25
FIRST_LOOKS_SECONDS = (0.02, 0.06, 0.15, NOBODY_SECONDS + 0.05)
#: A change whose teller died before it told is found after this long.
LOST_WORD_SECONDS = 1.0
POLL_SECONDS_MIN = 0.02
POLL_SECONDS_MAX = 0.1


class Teller(ForkAware):
    """Tells that something changed. A hint: whoever cannot tell has not failed in what it did."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._told = self._told_urgent = self._nobody_until = 0.0
        self._later: threading.Timer | None = None
        self.track_forks()

    def tell(self, *, urgent: bool = False) -> None:
        """`urgent`: something became free, which others may be waiting for."""
        if not urgent and time.monotonic() < self._nobody_until:
            return
        with self._lock:
            told, together = (self._told_urgent, URGENT_SECONDS) if urgent else (self._told, TOGETHER_SECONDS)
            left = told + together - time.monotonic()
            if left > 0:
                if self._later is None:
                    self._remember(left)
                return
            self._said()
            if urgent:
                self._told_urgent = self._told
        with contextlib.suppress(psycopg.Error, DibsError), self._pool.connection() as connection:
            self._notify(connection)

    def close(self) -> None:
        """Nothing is left untold."""
        if self._later is not None:
            self._tell_later()

    def after_fork_in_child(self) -> None:
        self._lock, self._later = threading.Lock(), None

    def _tell_later(self) -> None:
        """By a connection that rests: while there is none, a verb is going on, which will tell at its end."""
        with contextlib.suppress(psycopg.Error, DibsError), self._pool.idle_connection() as connection:
            with self._lock:
                if self._later is None:
                    return
                if connection is None:
                    self._remember(TOGETHER_SECONDS)
                    return
                self._said()
            self._notify(connection)

    def _notify(self, connection: Connection) -> None:
        asked = time.monotonic()
        if connection.execute(NOTIFY).rowcount == 0:
            self._nobody_until = asked + NOBODY_SECONDS

    def _remember(self, seconds: float) -> None:
        self._later = threading.Timer(seconds, self._tell_later)
        self._later.daemon = True
        self._later.start()

    def _said(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._told = time.monotonic()


class ListeningWatch(Watch):
    """Hears of every change, or with a session only of what concerns its tickets."""

    def __init__(self, url: str, session: str | None, feed_end: Callable[[], int]) -> None:
        self._url = url
        self._channel = CHANNEL if session is None else channel_of(session)
        self._look = feed_end if session is None else None
        self._connection: Connection | None = self._listening()
        self._since = time.monotonic()
        self._seen = 0 if self._look is None else self._look()

    def wait(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        while True:
            left = max(0.0, end - time.monotonic())
            if self._heard(left if self._look is None else min(left, self._until_next_look())):
                if self._look is not None:
                    self._seen = self._look()
                return True
            if self._look is not None:
                seen = self._look()
                if seen != self._seen:
                    self._seen = seen
                    return True
            if time.monotonic() >= end:
                return False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _until_next_look(self) -> float:
        age = time.monotonic() - self._since
        return next((at - age for at in FIRST_LOOKS_SECONDS if at > age), LOST_WORD_SECONDS)

    def _heard(self, timeout_seconds: float) -> bool:
        try:
            if self._connection is None:
                self._connection = self._listening()
                self._since = time.monotonic()
                return True  # nobody knows what was missed
            # One look answers all that have come by then.
            return bool(list(self._connection.notifies(timeout=timeout_seconds, stop_after=1)))
        except psycopg.Error:
            self.close()
            time.sleep(min(timeout_seconds, POLL_SECONDS_MAX))
            return True

    def _listening(self) -> Connection:
        try:
            connection = connect(self._url)
            if self._channel == CHANNEL:
                connection.execute(LISTENING)
            connection.execute(f'LISTEN "{self._channel}"')
            return connection
        except psycopg.Error as error:
            raise explain(error) from error


class PollingWatch(Watch):
    def __init__(self, feed_end: Callable[[], int]) -> None:
        self._look = feed_end
        self._seen = feed_end()

    def wait(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        pause = POLL_SECONDS_MIN
        while True:
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, uniform(pause / 2, 1.5 * pause)))
            pause = min(2 * pause, POLL_SECONDS_MAX)
            with contextlib.suppress(StoreUnavailable):
                seen = self._look()
                if seen != self._seen:
                    self._seen = seen
                    return True

    def close(self) -> None:
        pass


def channel_of(session: str) -> str:
    return f"{CHANNEL}_{hashlib.md5(session.encode(), usedforsecurity=False).hexdigest()}"
