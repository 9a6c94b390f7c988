"""A worker whose store is elsewhere: woken by new work, and still there after an outage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from dibs.board import Board
from dibs.sdk.claim_handle import ClaimHandle
from dibs.testing.harness import open_recipe
from dibs.testing.proxy import CuttingProxy
from dibs.worker.worker import Draft, Worker
from tests.conformance.conftest import folder
from tests.kit import postgres, sqlite
from tests.kit.http import Host
from tests.kit.postgres_server import PostgresServer
from tests.sdk.workers import Heard, running

__all__ = ["folder"]


class Stage:
    """`near` reaches the board whatever happens, `far` goes through what `away` breaks and `back` mends."""

    def __init__(self, near: Board, far: Board, away: Callable[[], None], back: Callable[[], None]) -> None:
        self.near, self.far, self.away, self.back = near, far, away, back


@pytest.fixture(params=["postgres", "http"])
def stage(request: pytest.FixtureRequest, folder: Path) -> Iterator[Stage]:
    if request.param == "postgres":
        yield from over_postgres(request.getfixturevalue("postgres_server"), folder)
    else:
        yield from over_http(request.getfixturevalue("http_host"), folder)


def over_postgres(server: PostgresServer, folder: Path) -> Iterator[Stage]:
    with CuttingProxy.before_postgres(server.url()) as proxy, postgres.harness(server, folder) as harness:
        kwargs = harness.recipe()["kwargs"]
        far = open_recipe({**harness.recipe(), "kwargs": {**kwargs, "url": proxy.url(kwargs["url"])}})

        def away() -> None:
            proxy.away = True
            with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [harness.database]
                )

        def back() -> None:
            proxy.away = False

        yield Stage(harness.board(), far, away, back)
        far.close()


def over_http(host: Host, folder: Path) -> Iterator[Stage]:
    with sqlite.harness(folder) as harness:
        url, key = host.serve(harness.recipe())
        far = open_recipe({"call": "tests.kit.http:open_board", "kwargs": {"servers": [(url, key)]}})
        port = int(url.rpartition(":")[2])
        yield Stage(harness.board(), far, lambda: host.stop(url), lambda: void(host.serve(harness.recipe(), port=port)))
        far.close()
        host.stop(url)


def void(_: object) -> None: ...


def test_new_work_wakes_it_and_an_outage_is_lived_through(stage: Stage) -> None:
    worker = Worker(stage.far, "coder", tell=(heard := Heard()))
    worker.handles(max_claims=2)(lambda claim: None)
    with running(worker):
        stage.near.add("first", id="first")
        heard.until("done")
        began = time.monotonic()
        stage.near.add("second", id="second")
        heard.until("done", times=2)
        assert time.monotonic() - began < 3, "it was woken, and did not wait for its time"
        stage.away()
        stage.back()
        stage.near.add("third", id="third")
        heard.until("done", times=3)
    assert {item.status for item in stage.near.list()} == {"done"}
    assert stage.near.sessions() == ()


def test_drafts_are_approved_and_carried_out_wherever_the_board_is(stage: Stage) -> None:
    near, far = stage.near, stage.far
    near.set_agent("cloud", sensitive_actions=["send"])
    near.set_agent("local", allowed_actions=["send"], sensitive_actions=["send"])
    near.add("Apologise", id="mail", action="send")
    sent: list[str | None] = []
    cloud, local = Worker(far, "cloud"), Worker(far, "local")
    cloud.handles()(lambda claim: Draft("Sorry."))

    @local.handles()
    def send(claim: ClaimHandle) -> None:
        sent.append(claim.approved_draft)
        if len(sent) == 1:
            claim.release("the line is busy")

    assert cloud.run(once=True) == {"submitted": 1}
    far.approve("mail", token=1, actor="alice", comment="kindly")
    assert cloud.run(once=True) == {"submitted": 1}, "what was approved is not the drafter's"
    assert local.run(once=True) == {"released": 1}
    assert local.run(once=True) == {"released": 1, "done": 1}
    assert sent == ["Sorry.", "Sorry."]
