"""Metrics for Prometheus: counters and histograms from the feed since this server started, gauges from the store.

Each label has a bounded number of values: further types, methods and paths count as `other`.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter as Counts
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from dibs.errors import DibsError
from dibs.model import Event, Pulse
from dibs.server.api.endpoints import AuthRoute, Content, describe
from dibs.server.ops.github_budgets import GithubBudgets
from dibs.server.service import Service

#: The store is read at most this often, however many scrapes there are.
PULSE_SECONDS = 1.0
TYPES_MAX = 20
OTHER = "other"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Responses that last until the client disconnects: their duration says nothing about the server.
STREAMS = frozenset({"/api/events"})
#: The events that end a run.
ENDS = (
    "done",
    "failed",
    "released",
    "handed",
    "submitted",
    "rejected",
    "cancelled",
    "expired",
    "owner_died",
    "forgotten",
    "force_released",
    "restored",
)
#: Start times are kept for this many items; durations of others are not observed.
STARTS_MAX = 50_000
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
TIME_TO_CLAIM_BUCKETS = (0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
DURATION_BUCKETS = (1, 5, 15, 60, 300, 900, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 24 * 3600)


class Metrics:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(BoardCollector(service))
        self._registry.register(GithubBudgets(service))
        self._claims = Counter("dibs_claims", "Granted claims", registry=self._registry)
        self._ends = Counter("dibs_runs_ended", "Ended runs, by outcome", ["outcome"], registry=self._registry)
        for outcome in ENDS:
            self._ends.labels(outcome)
        self._time_to_claim = Histogram(
            "dibs_time_to_claim_seconds",
            "From an item becoming claimable to its claim",
            buckets=TIME_TO_CLAIM_BUCKETS,
            registry=self._registry,
        )
        self._duration = Histogram(
            "dibs_claim_duration_seconds",
            "From a claim to the end of its run",
            buckets=DURATION_BUCKETS,
            registry=self._registry,
        )
        self._requests = Histogram(
            "dibs_request_seconds",
            "Requests, from the first byte to the last byte of the answer",
            ["method", "route", "status"],
            buckets=REQUEST_BUCKETS,
            registry=self._registry,
        )
        # The library checks the labels at each call.
        self._histogram = functools.cache(self._requests.labels)
        self._ready_since, self._claimed_since = StartTimes(), StartTimes()
        service.feed.on_events.append(self.on_events)

    def on_events(self, after: int, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind in ("claimable", "offered"):
                self._ready_since.start(event)
            elif event.kind == "claimed":
                self._claims.inc()
                self._claimed_since.start(event)
                _observe(self._time_to_claim, self._ready_since.stop(event))
            elif event.kind in ENDS and event.session is not None:
                # Without a session, the item was rejected or cancelled while no session held it.
                self._ends.labels(event.kind).inc()
                _observe(self._duration, self._claimed_since.stop(event))

    def observe_request(self, method: str, path: str, status: int, seconds: float) -> None:
        if path not in STREAMS:
            self._histogram(method if method in METHODS else OTHER, path, str(status)).observe(seconds)

    def routes(self) -> APIRouter:
        router = APIRouter(tags=["health"], route_class=AuthRoute)
        content = Content(media_type="text/plain", description="in Prometheus's text format")

        @router.get("/metrics", **describe("metrics", "Metrics for Prometheus", content))
        async def metrics(request: Request) -> Response:
            text = await self._service.run(lambda: generate_latest(self._registry))
            return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

        return router


class StartTimes:
    """Measures durations between two events of an item."""

    def __init__(self) -> None:
        self._at: OrderedDict[str, int] = OrderedDict()

    def start(self, event: Event) -> None:
        self._at[event.item] = event.at
        self._at.move_to_end(event.item)
        if len(self._at) > STARTS_MAX:
            self._at.popitem(last=False)

    def stop(self, event: Event) -> float | None:
        """The seconds since `start`; None if there was none."""
        started_at = self._at.pop(event.item, None)
        return None if started_at is None else max(0, event.at - started_at) / 1000


class BoardCollector(Collector):
    """Reads the store at each scrape; scrapes within a second share one read."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._pulse: Pulse | None = None
        self._read_at = float("-inf")

    def describe(self) -> Iterator[Metric]:
        """Empty, so that registering does not read the store."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        pulse = self._read()
        yield GaugeMetricFamily("dibs_store_up", "Whether the store answered this scrape", float(pulse is not None))
        if pulse is None:
            return
        ready = GaugeMetricFamily("dibs_ready_items", "Claimable items", labels=["type", "priority"])
        for (type, priority), count in ready_counts(pulse).items():
            ready.add_metric([type, priority], count)
        yield ready
        yield GaugeMetricFamily("dibs_active_claims", "Live claims", pulse.active_claims)
        yield GaugeMetricFamily(
            "dibs_heartbeat_lag_seconds",
            "Age of the oldest renewal of a live claim",
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

    def _read(self) -> Pulse | None:
        with self._lock:
            if time.monotonic() - self._read_at >= PULSE_SECONDS:
                try:
                    self._pulse = self._service.board.store.pulse()
                except DibsError:
                    self._pulse = None
                self._read_at = time.monotonic()
            return self._pulse


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


def _observe(histogram: Histogram, seconds: float | None) -> None:
    if seconds is not None:
        histogram.observe(seconds)
