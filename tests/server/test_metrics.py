"""What a server tells about its board: the figures are right, they are documented, their labels are few."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dibs import api_keys
from dibs.board import Board
from dibs.errors import StoreUnavailable
from dibs.github.place import Place
from dibs.model import Key, Pulse
from dibs.server.ops import board_metrics, metrics
from dibs.server.ops.store_state import StoreState
from dibs.server.service import Service
from dibs.store.contract import Store
from dibs.store.http.transport import Reply, sender
from dibs.testing.harness import Harness
from tests.docs.markdown import code, read, table
from tests.kit import sqlite
from tests.kit.http import Host

LINE = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)


class Watched:
    """A board behind a server, and the figures that are told of it."""

    def __init__(self, harness: Harness, url: str, key: str) -> None:
        self.harness, self.board = harness, harness.board()
        self._sender, self._key = sender(url), key

    def get(self, path: str, key: str | None = None) -> Reply:
        headers = {"Authorization": f"Bearer {key or self._key}"}
        return self._sender.send("GET", path, headers, None, 10)

    def figures(self) -> dict[str, float]:
        text = self.get("/metrics").body.decode()
        return {name + labels: float(value) for name, labels, value in LINE.findall(text)}

    def await_heard(self) -> None:
        """Until the server has taken in everything that happened."""
        newest = self.board.events(newest=True, limit=1)[-1].id
        assert b"event" in self.get(f"/v1/watch?after={newest - 1}&wait=20").body

    def close(self) -> None:
        self._sender.close()


@pytest.fixture
def watched(http_host: Host, tmp_path: Path) -> Iterator[Watched]:
    with sqlite.harness(tmp_path) as harness:
        url, key = http_host.serve(harness.recipe())
        watched = Watched(harness, url, key)
        watched.get("/livez")  # it has begun to listen, and misses no event
        yield watched
        watched.close()
        http_host.stop(url)


def work(board: Board, harness: Harness) -> None:
    """Three claims: one done after a minute, one failed, one that goes on; one refused, one waiting."""
    harness.clock.freeze()
    for n in range(4):
        board.add("An item", id=f"item-{n}", type="bug" if n else "chore", priority=8 if n else 1)
    for session in ("coder-1", "coder-2"):
        board.start_session("coder", id=session)
    harness.clock.advance(5)
    tokens = {n: board.claim(f"item-{n}", session="coder-1").claim.token for n in range(3)}
    with pytest.raises(Exception, match="claimed by"):
        board.claim("item-2", session="coder-2")
    board.wait("item-2", session="coder-2")
    harness.clock.advance(60)
    board.done("item-0", session="coder-1", token=tokens[0])
    board.fail("item-1", session="coder-1", token=tokens[1])


def test_the_figures_are_those_of_the_board(watched: Watched) -> None:
    work(watched.board, watched.harness)
    watched.await_heard()
    found = watched.figures()
    for figure, value in {
        'dibs_ready_items{priority="8",type="bug"}': 1,
        "dibs_active_claims": 1,
        "dibs_heartbeat_lag_seconds": 60,
        'dibs_sessions{health="healthy"}': 1,
        'dibs_sessions{health="idle"}': 1,
        "dibs_waiters": 1,
        "dibs_store_up": 1,
        "dibs_conflicts_avoided_total": 1,
        "dibs_claims_total": 3,
        'dibs_runs_ended_total{outcome="done"}': 1,
        'dibs_runs_ended_total{outcome="failed"}': 1,
        'dibs_runs_ended_total{outcome="expired"}': 0,
        "dibs_time_to_claim_seconds_count": 3,
        "dibs_time_to_claim_seconds_sum": 15,
        "dibs_claim_duration_seconds_count": 2,
        "dibs_claim_duration_seconds_sum": 120,
    }.items():
        alike = {name: there for name, there in found.items() if name.startswith(figure.partition("{")[0])}
        assert found.get(_ordered(figure, found)) == value, (figure, alike)


def _ordered(figure: str, found: dict[str, float]) -> str:
    """The figure as it is written, whatever the order of its labels."""
    wanted = sorted(re.findall(r'\w+="[^"]*"', figure))
    name = figure.partition("{")[0]
    return next(
        one for one in found if one.partition("{")[0] == name and sorted(re.findall(r'\w+="[^"]*"', one)) == wanted
    )


def test_expired_claims_and_dead_owners_are_counted(watched: Watched) -> None:
    work(watched.board, watched.harness)
    watched.harness.clock.advance(3 * 3600)
    watched.board.sweep()
    watched.await_heard()
    found = watched.figures()
    assert found['dibs_runs_ended_total{outcome="expired"}'] == 1
    assert found['dibs_runs_ended_total{outcome="owner_died"}'] == 0
    assert found["dibs_active_claims"] == 0


def test_requests_are_told_by_template_and_never_by_what_was_asked(watched: Watched) -> None:
    for path in ("/v1/items/one", "/v1/items/another", "/no/such/place", "/v1/stats"):
        watched.get(path)
    routes = {name for name in watched.figures() if name.startswith("dibs_request_seconds_count")}
    told = {tuple(sorted(re.findall(r'(\w+)="([^"]*)"', name))) for name in routes}
    assert (("method", "GET"), ("route", "/v1/items/{item}"), ("status", "404")) in told
    assert (("method", "GET"), ("route", "other"), ("status", "404")) in told
    assert (("method", "GET"), ("route", "/v1/stats"), ("status", "200")) in told
    assert not [name for name in routes if "one" in name or "no/such" in name]


def test_figures_need_a_key(watched: Watched) -> None:
    assert watched.get("/metrics", key="dibs_nobody_knows").status == 401


def test_every_metric_is_documented_and_every_documented_one_is_there(watched: Watched) -> None:
    work(watched.board, watched.harness)
    watched.board.backup(os.path.join(watched.harness.folder, "backup"))
    watched.board.store.put_key(key("3f9a", 30, 20), seconds=30 * DAY)
    Place(watched.board, "acme/shop").keep({"budget": {"limit": 5000, "remaining": 4000}})
    watched.await_heard()
    text = watched.get("/metrics").body.decode()
    kinds = dict(re.findall(r"^# TYPE (dibs_\w+) (\w+)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {name: set() for name in kinds}
    for name, found, _ in LINE.findall(text):
        base = re.sub(r"_(bucket|count|sum)$", "", name)
        if base in labels:
            labels[base] |= set(re.findall(r'(\w+)="', found)) - {"le"}
    told = {code(name)[0]: (kind, set(code(labels))) for name, kind, labels, _ in DOCUMENTED}
    # When they were made is told beside counters, and nobody's business.
    del told["dibs_certificate_expires_timestamp_seconds"]  # this server has none
    assert told == {name: (kinds[name], labels[name]) for name in kinds if not name.endswith("_created")}


DOCUMENTED = table(read("docs/operations/metrics.md"), "metric", "kind", "labels", "what it tells")


def pulse(**changes: object) -> Pulse:
    figures = Pulse(
        ready=[],
        ready_total=0,
        active_claims=0,
        heartbeat_lag_seconds=0,
        sessions={},
        waiters=0,
        conflicts_avoided=0,
    )
    return figures.replace(**changes)


def test_types_beyond_the_most_frequent_are_one() -> None:
    counts = {f"type-{n}": 1000 - n for n in range(100)}
    ready = [{"type": type, "priority": 5, "count": count} for type, count in counts.items()]
    found = board_metrics.ready_counts(pulse(ready=ready, ready_total=sum(counts.values()) + 7))
    types = {type for type, _ in found}
    assert len(types) == board_metrics.TYPES_MAX + 1
    assert found["other", "5"] == sum(1000 - n for n in range(board_metrics.TYPES_MAX, 100))
    assert found["other", "other"] == 7


class Asked:
    """A store that counts how often it is asked, and is away, or hangs, when told so."""

    def __init__(self) -> None:
        self.times, self.away = 0, False
        self.lets_go = threading.Event()
        self.lets_go.set()

    def pulse(self) -> Pulse:
        self.times += 1
        assert self.lets_go.wait(60)
        if self.away:
            raise StoreUnavailable("away")
        return pulse(waiters=3)

    def keys(self) -> tuple[Key, ...]:
        return ()

    def free_bytes(self) -> None:
        return None


def collector(store: Asked) -> board_metrics.BoardCollector:
    return board_metrics.BoardCollector(cast("Store", store), StoreState(cast("Store", store)), None)


def scraped(board_now: board_metrics.BoardCollector, times: int = 1) -> dict[str, float]:
    """What the last of so many scrapes finds."""
    for _ in range(times):
        found = {sample.name: sample.value for metric in board_now.collect() for sample in metric.samples}
    return found


@pytest.mark.parametrize(("kept_seconds", "asked"), [(1e9, 1), (0, 5)])
def test_scrapes_within_a_second_share_one_look(
    monkeypatch: pytest.MonkeyPatch, kept_seconds: float, asked: int
) -> None:
    monkeypatch.setattr(board_metrics, "PULSE_SECONDS", kept_seconds)
    store = Asked()
    assert scraped(collector(store), 5)["dibs_waiters"] == 3
    assert store.times == asked


def test_methods_are_few_and_streams_are_not_measured() -> None:
    store, feed = Asked(), SimpleNamespace(on_events=[])
    known = StoreState(cast("Store", store))
    service = SimpleNamespace(board=SimpleNamespace(store=store), feed=feed, store_state=known)
    figures = metrics.Metrics(cast(Service, service))
    for method, path in (
        ("GET", "/v1/items"),
        ("PROPFIND", "/v1/items"),
        ("BREW", "/v1/items"),
        ("GET", "/api/events"),
    ):
        figures.observe_request(method, path, 200, 0.1)
    counted = {
        (sample.labels["method"], sample.labels["route"]): sample.value
        for metric in figures._requests.collect()
        for sample in metric.samples
        if sample.name.endswith("_count")
    }
    assert counted == {("GET", "/v1/items"): 1, ("other", "/v1/items"): 2}


def test_a_store_that_is_away_is_told() -> None:
    store = Asked()
    store.away = True
    assert scraped(collector(store)) == {"dibs_store_up": 0, "dibs_store_writable": 0}


def test_a_store_that_hangs_keeps_no_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of the scrape before are given for a minute; one thread waits for the store, however many scrapes."""
    monkeypatch.setattr(board_metrics, "PULSE_SECONDS", 0)
    monkeypatch.setattr(board_metrics, "WAIT_SECONDS", 0.01)
    store = Asked()
    scrapes = collector(store)
    store.lets_go.clear()
    assert scraped(scrapes, 3) == {"dibs_store_up": 0, "dibs_store_writable": 0}
    assert store.times == 1
    store.lets_go.set()
    assert any(scraped(scrapes).get("dibs_waiters") == 3 for _ in range(1000))
    store.lets_go.clear()
    asked = store.times
    assert scraped(scrapes, 3)["dibs_waiters"] == 3
    assert store.times <= asked + 1
    monkeypatch.setattr(board_metrics, "KEPT_SECONDS", 0)
    assert "dibs_waiters" not in scraped(scrapes)
    store.lets_go.set()


def key(id: str, days: float, left: float, **changes: object) -> Key:
    """A key that was valid for so many days and is for so many more, at the instant NOW."""
    expires_at = int((NOW + left * DAY) * 1000)
    made = Key(id=id, role="agent", agent=None, digest="", created_at=int(expires_at - days * DAY * 1000))
    return made.replace(**{"expires_at": expires_at, **changes})


NOW, DAY = 1_800_000_000.0, 86400.0


def test_keys_that_somebody_has_to_replace_are_told() -> None:
    told = {
        "soon": key("soon", 30, 2),
        "later": key("later", 90, 40),
        "just-expired": key("just-expired", 30, -0.5),
    }
    quiet = [
        key("for-a-day", 1, 0.5),
        key("for-ever", 30, 2, expires_at=None),
        key("revoked", 30, 2, revoked_at=1),
        key("long-expired", 30, -3),
        key("login", 30, 2, role="login"),
        key("web1", 30, 2),
        key("replaced", 30, 1),
        key("successor", 30, 29, line="replaced"),
    ]
    found = api_keys.to_replace((*quiet, *told.values()), NOW * 1000)
    assert [one.id for one in found] == ["just-expired", "soon", "successor", "later"]
    assert [one.id for one in api_keys.ending(found, NOW * 1000)] == ["just-expired", "soon"]
