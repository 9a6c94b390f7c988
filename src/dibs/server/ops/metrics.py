"""Figures for Prometheus: what happened since this server started, from the feed; what is so now, from the store.

Every label has few values, whatever anybody calls a type or asks for: what is too many, or unknown, is `other`.
"""

from __future__ import annotations

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
from dibs.model import VIEWER, Event, Pulse
from dibs.server.api.routes import REFUSALS
from dibs.server.auth.auth_route import keyed, needs
from dibs.server.service import Service

#: However many scrape, the store is asked no more often.
PULSE_SECONDS = 1.0
TYPES_MAX = 20
OTHER = "other"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Answers that go on until somebody leaves: how long they took says nothing about the server.
STREAMS = frozenset({"/api/events"})
#: How a run can end, by the event that tells it.
ENDS = (
    "done",
    "failed",
    "released",
    "submitted",
    "rejected",
    "cancelled",
    "expired",
    "owner_died",
    "forgotten",
    "force_released",
)
#: When something began is remembered for so many items; for more, how long it took is not counted.
BEGAN_MAX = 50_000
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
TIME_TO_CLAIM_BUCKETS = (0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
DURATION_BUCKETS = (1, 5, 15, 60, 300, 900, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 24 * 3600)


class Figures:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(BoardNow(service))
        self._claims = Counter("dibs_claims", "Claims given", registry=self._registry)
        self._ends = Counter("dibs_runs_ended", "Runs that ended, by how", ["outcome"], registry=self._registry)
        for outcome in ENDS:
            self._ends.labels(outcome)
        self._time_to_claim = Histogram(
            "dibs_time_to_claim_seconds",
            "From when an item could be had until it was claimed",
            buckets=TIME_TO_CLAIM_BUCKETS,
            registry=self._registry,
        )
        self._duration = Histogram(
            "dibs_claim_duration_seconds",
            "From a claim until its run ended",
            buckets=DURATION_BUCKETS,
            registry=self._registry,
        )
        self._requests = Histogram(
            "dibs_request_seconds",
            "Requests, from the first byte to the last of the answer",
            ["method", "route", "status"],
            buckets=REQUEST_BUCKETS,
            registry=self._registry,
        )
        self._ready_since, self._claimed_since = Began(), Began()
        service.feed.heard.append(self.hear)

    def hear(self, after: int, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind in ("claimable", "offered"):
                self._ready_since.note(event)
            elif event.kind == "claimed":
                self._claims.inc()
                self._claimed_since.note(event)
                _observe(self._time_to_claim, self._ready_since.until(event))
            elif event.kind in ENDS and event.session is not None:
                # Without a session it is what nobody held that was rejected or cancelled.
                self._ends.labels(event.kind).inc()
                _observe(self._duration, self._claimed_since.until(event))

    def measured(self, method: str, path: str, status: int, seconds: float) -> None:
        if path not in STREAMS:
            self._requests.labels(method if method in METHODS else OTHER, path, str(status)).observe(seconds)

    def routes(self) -> APIRouter:
        router = APIRouter(tags=["health"], route_class=keyed(self._service))

        @router.get(
            "/metrics",
            summary="Figures for Prometheus",
            operation_id="metrics",
            response_class=Response,
            responses={200: {"content": {"text/plain": {}}, "description": "in Prometheus's text format"}, **REFUSALS},
            **needs(VIEWER),
        )
        async def metrics(request: Request) -> Response:
            told = await self._service.run(lambda: generate_latest(self._registry))
            return Response(told, headers={"Content-Type": CONTENT_TYPE_LATEST})

        return router


class Began:
    """When something began with an item, as long as it goes on."""

    def __init__(self) -> None:
        self._at: OrderedDict[str, int] = OrderedDict()

    def note(self, event: Event) -> None:
        self._at[event.item] = event.at
        self._at.move_to_end(event.item)
        if len(self._at) > BEGAN_MAX:
            self._at.popitem(last=False)

    def until(self, event: Event) -> float | None:
        """How long it took until this event, in seconds; None if nobody saw it begin."""
        began_at = self._at.pop(event.item, None)
        return None if began_at is None else max(0, event.at - began_at) / 1000


class BoardNow(Collector):
    """Read at each scrape, in one look that several scrapes share."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._pulse: Pulse | None = None
        self._looked = float("-inf")

    def describe(self) -> Iterator[Metric]:
        """Nothing, so that the store is not asked before anybody scrapes."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        pulse = self._look()
        yield GaugeMetricFamily("dibs_store_up", "Whether the store answered this scrape", float(pulse is not None))
        if pulse is None:
            return
        ready = GaugeMetricFamily("dibs_ready_items", "Items that can be had", labels=["type", "priority"])
        for (type, priority), count in depths(pulse).items():
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
            "dibs_conflicts_avoided", "Claims refused because somebody else had the item", pulse.conflicts_avoided
        )

    def _look(self) -> Pulse | None:
        with self._lock:
            if time.monotonic() - self._looked >= PULSE_SECONDS:
                try:
                    self._pulse = self._service.board.store.pulse()
                except DibsError:
                    self._pulse = None
                self._looked = time.monotonic()
            return self._pulse


def depths(pulse: Pulse) -> dict[tuple[str, str], int]:
    """How much is ready by type and priority, the types with the most by name."""
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
