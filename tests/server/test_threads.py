"""What the server does by itself, with nobody asking: it moves on what time has done, buries the dead, and survives its
own mistakes."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.errors import StoreUnavailable
from dibs.server import service as service_module
from dibs.server.ops import health
from dibs.server.service import Service
from dibs.server.streams import feed as feed_module
from tests.kit import sqlite
from tests.kit.sqlite import SqliteHarness
from tests.kit.waiting import PATIENCE_SECONDS


class Once:
    """A call that fails the first time, as nothing of ours is meant to."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.failed = threading.Event()
        self.went_on = threading.Event()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.failed.is_set():
            self.failed.set()
            raise OverflowError("a mistake of ours")
        self.went_on.set()
        return self._call(*args, **kwargs)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteHarness]:
    with sqlite.harness(tmp_path) as harness:
        yield harness


@contextmanager
def going(service: Service) -> Iterator[None]:
    """It runs, without a web server."""
    loop = asyncio.new_event_loop()

    async def start() -> None:
        service.start()

    loop.run_until_complete(start())
    try:
        yield
    finally:
        service.stop()
        service._sweeper.join(PATIENCE_SECONDS)
        service.feed._thread.join(PATIENCE_SECONDS)
        loop.close()


def ready(service: Service) -> Any:
    """What /readyz answers."""
    (route,) = [one for one in health.routes(service).routes if getattr(one, "path", "") == "/readyz"]
    return asyncio.run(route.endpoint())  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(feed_module, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(feed_module, "RETRY_SECONDS", 0.05)


def test_a_mistake_of_ours_ends_neither_sweeper_nor_follower(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    board = harness.board()
    service = Service(board.store, board.settings)
    burying, following = Once(service.board.reap_dead_owners), Once(service.feed._read_news)
    monkeypatch.setattr(service.board, "reap_dead_owners", burying)
    monkeypatch.setattr(service.feed, "_read_news", following)
    with caplog.at_level(logging.ERROR), going(service):
        assert burying.went_on.wait(PATIENCE_SECONDS)
        assert following.went_on.wait(PATIENCE_SECONDS)
        assert ready(service).status_code == 200
    said = [record.getMessage() for record in caplog.records if record.exc_info]
    assert sorted(words.split(";")[0] for words in said) == ["following the feed failed", "the sweep failed"]


@pytest.mark.parametrize("gone", ["sweeper", "follower"])
def test_a_server_of_which_something_ended_is_not_ready(
    harness: SqliteHarness, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    board = harness.board()
    service = Service(board.store, board.settings)
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    with going(service):
        assert ready(service).status_code == 200
        with monkeypatch.context() as patched:
            if gone == "sweeper":
                patched.setattr(service, "_sweeper", ended)
            else:
                patched.setattr(service.feed, "_thread", ended)
            with pytest.raises(StoreUnavailable, match="ended"):
                ready(service)


def test_what_time_has_done_is_moved_on_with_nobody_asking(harness: SqliteHarness) -> None:
    board = harness.board()
    board.add("T", id="t")
    board.start_session("coder", id="me")
    board.claim("t", session="me", ttl_seconds=600)
    with going(Service(harness.board().store, board.settings)):
        harness.clock.advance(601)
        until(board, "expired")
    assert board.get("t").item.status == "ready"


def test_the_dead_are_buried_with_nobody_asking(harness: SqliteHarness) -> None:
    board = harness.board()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    board.add("T", id="t")
    board.start_session("coder", id="me", owner_pid=child.pid)
    board.claim("t", session="me", ttl_seconds=600)
    with going(Service(harness.board().store, board.settings)):
        child.communicate()
        until(board, "owner_died")
    assert board.get("t").item.status == "ready"


def until(board: Board, kind: str) -> None:
    """Somebody else sees it happen, and does nothing about it."""
    for event in board.follow(wait_seconds=PATIENCE_SECONDS):
        if event.kind == kind:
            return
    raise AssertionError(f"nothing was {kind}")
