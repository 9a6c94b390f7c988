"""Notifications: NOTIFY after a commit, LISTEN while a client waits.

A NOTIFY inside a claim's transaction would serialize all commits, so it is sent afterwards. Each NOTIFY is a commit of
its own, so it is sent only while a client listens: for the first change at once, for later ones coalesced to ten a
second, for items that became claimable to a hundred a second. A sender that found no listener sends nothing for
`NO_LISTENER_SECONDS`; a new listener polls for that long. A change of a ticket is notified by the transaction itself,
on a channel of the ticket's session. Behind a pooler LISTEN does not work, and a waiting client polls at growing
intervals.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time

import psycopg

from dibs.errors import DibsError, StoreUnavailable, StoreUnusable
from dibs.randomness import uniform
from dibs.store.contract import Watch
from dibs.store.postgres.connections import connect, explain
from dibs.system.fork import ForkAware

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from dibs.store.postgres.connections import Connection, Pool

CHANNEL = "dibs"
#: A listener holds a shared lock: if the exclusive lock is free, no client listens.
NOTIFY = "SELECT pg_catalog.pg_notify('dibs', '') WHERE NOT pg_catalog.pg_try_advisory_xact_lock(25703, 0)"
LISTENING = "SELECT pg_catalog.pg_advisory_lock_shared(25703, 0)"
COALESCE_SECONDS = 0.1
#: The least time between two notifications of items that became claimable.
URGENT_SECONDS = 0.01
#: For how long a process assumes that no client listens, and a new listener polls.
NO_LISTENER_SECONDS = 0.25
FIRST_LOOKS_SECONDS = (0.02, 0.06, 0.15, NO_LISTENER_SECONDS + 0.05)
#: The interval at which a listener polls, in case that a sender died before its notification.
LOST_NOTIFY_SECONDS = 1.0
POLL_SECONDS_MIN = 0.02
POLL_SECONDS_MAX = 0.1


class Notifier(ForkAware):
    """Sends notifications of changes. They are hints: a failed notification does not fail the verb."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._sent_at = self._sent_urgent_at = self._no_listener_until = 0.0
        self._later: threading.Timer | None = None
        self._sender: Executor | None = None
        self.track_forks()

    def send_in_background(self) -> None:
        """From here on no verb waits until a notification is sent, which takes as long as a short verb."""
        if self._sender is None:
            self._sender = _sender()

    def notify(self, *, urgent: bool = False) -> None:
        """`urgent`: an item became claimable."""
        if not urgent and time.monotonic() < self._no_listener_until:
            return
        with self._lock:
            at, least = (self._sent_urgent_at, URGENT_SECONDS) if urgent else (self._sent_at, COALESCE_SECONDS)
            left = at + least - time.monotonic()
            if left > 0:
                if self._later is None:
                    self._schedule(left)
                return
            self._mark_sent()
            if urgent:
                self._sent_urgent_at = self._sent_at
        sender = self._sender
        if sender is None:
            self._send_now()
        else:
            with contextlib.suppress(RuntimeError):  # the board is being closed
                sender.submit(self._send_now)

    def close(self) -> None:
        """Send the notification that is scheduled, if any."""
        if self._sender is not None:
            self._sender.shutdown()
            self._sender = None
        if self._later is not None:
            self._send_scheduled()

    def after_fork_in_child(self) -> None:
        self._lock, self._later = threading.Lock(), None
        self._sender = None if self._sender is None else _sender()

    def _send_now(self) -> None:
        with contextlib.suppress(psycopg.Error, DibsError), self._pool.connection() as connection:
            self._send(connection)

    def _send_scheduled(self) -> None:
        """Send over an idle connection. Without one, a verb is running, which notifies at its end."""
        with contextlib.suppress(psycopg.Error, DibsError), self._pool.idle_connection() as connection:
            with self._lock:
                if self._later is None:
                    return
                if connection is None:
                    self._schedule(COALESCE_SECONDS)
                    return
                self._mark_sent()
            self._send(connection)

    def _send(self, connection: Connection) -> None:
        started = time.monotonic()
        if connection.execute(NOTIFY).rowcount == 0:
            self._no_listener_until = started + NO_LISTENER_SECONDS

    def _schedule(self, seconds: float) -> None:
        self._later = threading.Timer(seconds, self._send_scheduled)
        self._later.daemon = True
        self._later.start()

    def _mark_sent(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._sent_at = time.monotonic()


def _sender() -> Executor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1, "notify")


class ListeningWatch(Watch):
    """Wakes on every change, or with a session only on changes of its tickets."""

    def __init__(self, url: str, session: str | None, feed_end: Callable[[], int]) -> None:
        self._url = url
        self._channel = CHANNEL if session is None else channel_of(session)
        self._look = feed_end if session is None else None
        self._connection: Connection | None = self._listen()
        self._since = time.monotonic()
        self._seen = 0 if self._look is None else self._look()

    def wait(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        while True:
            left = max(0.0, end - time.monotonic())
            if self._is_notified(left if self._look is None else min(left, self._until_next_look())):
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
        return next((at - age for at in FIRST_LOOKS_SECONDS if at > age), LOST_NOTIFY_SECONDS)

    def _is_notified(self, timeout_seconds: float) -> bool:
        try:
            if self._connection is None:
                self._connection = self._listen()
                self._since = time.monotonic()
                return True  # a change may have been missed meanwhile
            # One is enough: the waiter reads the board once, whatever the number of notifications.
            return bool(list(self._connection.notifies(timeout=timeout_seconds, stop_after=1)))
        except psycopg.Error:
            self.close()
            time.sleep(min(timeout_seconds, POLL_SECONDS_MAX))
            return True

    def _listen(self) -> Connection:
        connection = None
        try:
            connection = connect(self._url)
            if self._channel == CHANNEL:
                connection.execute(LISTENING)
            connection.execute(f'LISTEN "{self._channel}"')
            return connection
        except psycopg.Error as error:
            if connection is not None:
                connection.close()
            raise explain(error) from error


def watch(url: str, session: str | None, feed_end: Callable[[], int]) -> Watch:
    """A role that may take no advisory lock polls: senders would not know that it listens."""
    try:
        return ListeningWatch(url, session, feed_end)
    except StoreUnusable as error:
        if isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
            return PollingWatch(feed_end)
        raise


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
