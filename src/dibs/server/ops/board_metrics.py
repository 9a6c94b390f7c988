"""The gauges about the board and its store. A scrape is answered at once, also when the store hangs."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dibs import api_keys
from dibs.errors import DibsError
from dibs.model import Key, Pulse
from dibs.server.ops.certificates import Certificate
from dibs.server.ops.store_state import StoreState
from dibs.store.contract import Store
from dibs.value import Value

T = TypeVar("T")

#: The store is read at most this often, however many scrapes there are.
PULSE_SECONDS = 1.0
#: How long a scrape waits for figures, and for how long those of an earlier scrape are given if they come later.
WAIT_SECONDS, KEPT_SECONDS = 0.4, 60.0
TYPES_MAX = 20
OTHER = "other"
#: So many keys have a series of their own: those that expire first.
KEYS_MAX = 50


class Figures(Value):
    """What one look at the store finds. `keys` will expire."""

    pulse: Pulse
    keys: tuple[Key, ...]
    free_bytes: int | None


class Reader(Generic[T]):
    """Reads in a thread of its own, of which there is one at a time: a store that hangs keeps no other thread."""

    def __init__(self, look: Callable[[], T], every_seconds: float) -> None:
        self._look, self._every_seconds = look, every_seconds
        self._ended = threading.Condition()
        self._is_reading = False
        self._found: T | None = None
        self._found_at = self._ended_at = float("-inf")

    def read(self) -> T | None:
        """What there is now, or else was a minute ago at most; None: the store does not give anything."""
        with self._ended:
            if not self._is_reading and time.monotonic() - self._ended_at >= self._every_seconds:
                self._is_reading = True
                threading.Thread(target=self._read, name="figures", daemon=True).start()
            self._ended.wait_for(lambda: not self._is_reading, WAIT_SECONDS)
            return self._found if time.monotonic() - self._found_at < KEPT_SECONDS else None

    def _read(self) -> None:
        found = None
        try:
            found = self._look()
        except DibsError:
            pass  # the state of the store says why
        except Exception:
            # A scrape has to be answered whatever a figure meets: it says that the store gives none.
            logging.exception("reading the figures failed")
        finally:
            with self._ended:
                self._is_reading = False
                self._found, self._ended_at = found, time.monotonic()
                self._found_at = self._ended_at if found is not None else float("-inf")
                self._ended.notify_all()


def figures_of(store: Store) -> Figures:
    pulse, keys = store.pulse(), store.keys()
    return Figures(
        pulse=pulse,
        keys=api_keys.to_replace(keys, time.time() * 1000)[:KEYS_MAX],
        free_bytes=store.free_bytes(),
    )


class BoardCollector(Collector):
    def __init__(self, store: Store, state: StoreState, certificate: Certificate | None) -> None:
        self._state, self._certificate = state, certificate
        self._reader = Reader(lambda: figures_of(store), PULSE_SECONDS)

    def describe(self) -> Iterator[Metric]:
        """Empty, so that registering does not read the store."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        figures = self._reader.read() if self._state.answers else None
        answers = figures is not None and self._state.answers
        writable = answers and self._state.accepts_writes
        yield GaugeMetricFamily("dibs_store_up", "Whether the store answers", float(answers))
        yield GaugeMetricFamily("dibs_store_writable", "Whether the store answers and accepts writes", float(writable))
        if self._certificate is not None:
            yield GaugeMetricFamily(
                "dibs_certificate_expires_timestamp_seconds",
                "When the certificate of this server expires",
                self._certificate.expires_at,
            )
        if figures is not None and answers:
            yield from _of_board(figures)


def _of_board(figures: Figures) -> Iterator[Metric]:
    pulse = figures.pulse
    ready = GaugeMetricFamily("dibs_ready_items", "Claimable items", labels=["type", "priority"])
    for (type, priority), count in ready_counts(pulse).items():
        ready.add_metric([type, priority], count)
    yield ready
    yield GaugeMetricFamily("dibs_active_claims", "Live claims", pulse.active_claims)
    yield GaugeMetricFamily(
        "dibs_heartbeat_lag_seconds",
        "Age of the oldest renewal of a live claim of a program",
        pulse.heartbeat_lag_seconds,
    )
    sessions = GaugeMetricFamily("dibs_sessions", "Live sessions, by health", labels=["health"])
    for health, count in pulse.sessions.items():
        sessions.add_metric([health], count)
    yield sessions
    yield GaugeMetricFamily("dibs_waiters", "Live tickets in the queues of items", pulse.waiters)
    yield CounterMetricFamily(
        "dibs_conflicts_avoided", "Claims refused because another session held the item", pulse.conflicts_avoided
    )
    yield GaugeMetricFamily("dibs_waiting_for_person", "Items that wait for approval", pulse.waiting_for_person)
    yield GaugeMetricFamily(
        "dibs_waiting_for_person_seconds",
        "How long the oldest of them has waited",
        pulse.waiting_for_person_seconds,
    )
    yield GaugeMetricFamily(
        "dibs_webhooks_disabled", "Webhooks that were disabled because deliveries failed", pulse.webhooks_disabled
    )
    if pulse.last_backup_at is not None:
        yield GaugeMetricFamily(
            "dibs_last_backup_timestamp_seconds", "When dibs backup was last complete", pulse.last_backup_at / 1000
        )
    if figures.free_bytes is not None:
        yield GaugeMetricFamily("dibs_store_free_bytes", "Free space of the disk of the board", figures.free_bytes)
    keys = GaugeMetricFamily("dibs_key_expires_timestamp_seconds", "When a key expires", labels=["key", "name"])
    for key in figures.keys:
        keys.add_metric([key.id, key.name or key.agent or ""], (key.expires_at or 0) / 1000)
    yield keys


def ready_counts(pulse: Pulse) -> dict[tuple[str, str], int]:
    """Ready items by type and priority; the types with the most items by name."""
    by_type: Counts[str] = Counts()
    for group in pulse.ready:
        by_type[group["type"]] += group["count"]
    named = {type for type, _ in by_type.most_common(TYPES_MAX)}
    found: Counts[tuple[str, str]] = Counts()
    for group in pulse.ready:
        type = group["type"] if group["type"] in named else OTHER
        found[type, str(group["priority"])] += group["count"]
    left = pulse.ready_total - sum(by_type.values())
    if left:
        found[OTHER, OTHER] += left
    return found
