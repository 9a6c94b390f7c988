"""Metrics of the requests that GitHub allows the watchers of repositories, as they have noted it on the board."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dibs.errors import DibsError
from dibs.github import place
from dibs.server.service import Service

#: The board is read at most this often: a watcher notes its budget every other minute.
READ_SECONDS = 30.0
#: So many repositories are exported.
REPOSITORIES_MAX = 20


class GithubBudgets(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._found: dict[str, dict[str, int]] = {}
        self._read_at = float("-inf")

    def describe(self) -> Iterator[Metric]:
        """Empty, so that registering does not read the store."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        names = {
            "remaining": "Requests that GitHub still allows a watcher in this hour",
            "limit": "Requests that GitHub allows a watcher in an hour",
        }
        found = self._read()
        for name, text in names.items():
            family = GaugeMetricFamily(f"dibs_github_requests_{name}", text, labels=["repository"])
            for repository, budget in found.items():
                family.add_metric([repository], budget[name])
            yield family

    def _read(self) -> dict[str, dict[str, int]]:
        with self._lock:
            if time.monotonic() - self._read_at >= READ_SECONDS:
                try:
                    self._found = place.budgets(self._service.board, REPOSITORIES_MAX)
                except DibsError:
                    self._found = {}
                self._read_at = time.monotonic()
            return self._found
