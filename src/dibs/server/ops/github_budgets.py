"""Metrics of the requests that GitHub allows the watchers of repositories, as they have noted it on the board."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dibs.board import Board
from dibs.github import place
from dibs.server.ops.board_metrics import Reader
from dibs.server.ops.store_state import StoreState

#: The board is read at most this often: a watcher notes its budget every other minute.
READ_SECONDS = 30.0
#: So many repositories are exported.
REPOSITORIES_MAX = 20


class GithubBudgets(Collector):
    def __init__(self, board: Board, state: StoreState) -> None:
        self._state = state
        self._reader = Reader(lambda: place.budgets(board, REPOSITORIES_MAX), READ_SECONDS)

    def describe(self) -> Iterator[Metric]:
        """Empty, so that registering does not read the store."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        names = {
            "remaining": "Requests that GitHub still allows a watcher in this hour",
            "limit": "Requests that GitHub allows a watcher in an hour",
        }
        found = (self._reader.read() if self._state.answers else None) or {}
        for name, text in names.items():
            family = GaugeMetricFamily(f"dibs_github_requests_{name}", text, labels=["repository"])
            for repository, budget in found.items():
                family.add_metric([repository], budget[name])
            yield family
