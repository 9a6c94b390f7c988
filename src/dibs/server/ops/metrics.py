"""Metrics for Prometheus: counters and histograms from the feed since this server started, gauges from the store.

Each label has a bounded number of values: further types, methods and paths count as `other`.
"""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from dibs.model import Event
from dibs.rules.event_kinds import OUTCOMES
from dibs.server.api.endpoints import AuthRoute, Content, describe
from dibs.server.ops.board_metrics import OTHER, BoardCollector
from dibs.server.ops.certificates import Certificate
from dibs.server.ops.github_budgets import GithubBudgets
from dibs.server.service import Service

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Responses that last until the client disconnects: their duration says nothing about the server. Refusals count.
STREAMS = frozenset({"/api/events"})
#: Start times are kept for this many items; durations of others are not observed.
STARTS_MAX = 50_000
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
TIME_TO_CLAIM_BUCKETS = (0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
DURATION_BUCKETS = (1, 5, 15, 60, 300, 900, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600, 24 * 3600)


class Metrics:
    def __init__(self, service: Service, certificate: Certificate | None = None) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(BoardCollector(service.board.store, service.store_state, certificate))
        self._registry.register(GithubBudgets(service.board, service.store_state))
        self._claims = Counter("dibs_claims", "Granted claims", registry=self._registry)
        self._ends = Counter("dibs_runs_ended", "Ended runs, by outcome", ["outcome"], registry=self._registry)
        for outcome in OUTCOMES:
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
            elif event.kind in OUTCOMES and event.session is not None:
                # Without a session, the item was rejected or cancelled while no session held it.
                self._ends.labels(event.kind).inc()
                _observe(self._duration, self._claimed_since.stop(event))

    def observe_request(self, method: str, path: str, status: int, seconds: float) -> None:
        if path not in STREAMS or status >= HTTPStatus.BAD_REQUEST:
            self._histogram(method if method in METHODS else OTHER, path, str(status)).observe(seconds)

    def routes(self) -> APIRouter:
        router = APIRouter(tags=["health"], route_class=ScrapeRoute)
        content = Content(media_type="text/plain", description="in Prometheus's text format")

        @router.get("/metrics", **describe("metrics", "Metrics for Prometheus", content))
        async def metrics(request: Request) -> Response:
            # Not with the threads of verbs, which may all wait for the store.
            text = await asyncio.to_thread(generate_latest, self._registry)
            return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

        return router


class ScrapeRoute(AuthRoute):
    """Is admitted and answers within a second also when the store does not answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = APIRoute.get_route_handler(self)

        async def handler(request: Request) -> Response:
            await request.app.state.service.admit_scrape(request)
            return await handle(request)

        return handler


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


def _observe(histogram: Histogram, seconds: float | None) -> None:
    if seconds is not None:
        histogram.observe(seconds)
