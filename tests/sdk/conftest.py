"""A board on each store, with short claims, and where there is a network, a line to it that can be cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dibs.board import Board
from dibs.testing.actors import Actor
from dibs.testing.harness import Harness, open_recipe
from tests.conformance.conftest import folder
from tests.kit import postgres, sqlite
from tests.kit.http import Host
from tests.kit.postgres_server import PostgresServer
from tests.kit.soak import in_a_soak
from tests.sdk.line import Line

__all__ = ["folder"]

#: Short enough to be waited for, and long enough that a busy machine renews in time.
TTL_SECONDS = 3.0
SETTINGS: dict[str, Any] = {"ttl_seconds_min": 1.0, "lock_wait_seconds": 2.0}


class Stage:
    """One board: `board` reaches it directly, actors and `far` by the line where there is one."""

    def __init__(self, stack: ExitStack, harness: Harness, recipe: dict[str, Any], line: Line | None) -> None:
        self._stack, self.harness, self.recipe = stack, harness, recipe
        self.board = harness.board()
        self._line = line

    @property
    def line(self) -> Line:
        assert self._line is not None, "there is no network before this store"
        return self._line

    def far(self) -> Board:
        board = open_recipe(self.recipe)
        self._stack.callback(board.close)
        return board

    def actor(self) -> Actor:
        actor = Actor(self.recipe, self.harness.folder)
        self._stack.callback(actor.end)
        actor.await_ready()
        return actor

    def holder(self, item: str, ttl_seconds: float = TTL_SECONDS, **asked: Any) -> Actor:
        """A process that holds a new item."""
        self.board.add("do it", id=item)
        actor = self.actor()
        actor.play("tests.sdk.acting:holding", item=item, ttl_seconds=ttl_seconds, **asked)
        assert actor.read("holds")["holds"] == 1
        return actor


def told(actor: Actor, verb: str, **asked: Any) -> Any:
    """What came of an order."""
    actor.send(verb, **asked)
    return actor.read("did")["did"]


@pytest.fixture(params=["sqlite", *in_a_soak("postgres"), "http"])
def stage(request: pytest.FixtureRequest, folder: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield make_stage(stack, request, folder, request.param)


@pytest.fixture(params=["postgres", "http"])
def far_stage(request: pytest.FixtureRequest, folder: Path) -> Iterator[Stage]:
    """Where there is something to be cut."""
    with ExitStack() as stack:
        yield make_stage(stack, request, folder, request.param)


@pytest.fixture
def near_stage(request: pytest.FixtureRequest, folder: Path) -> Iterator[Stage]:
    """A board in a file."""
    with ExitStack() as stack:
        yield make_stage(stack, request, folder, "sqlite")


def make_stage(stack: ExitStack, request: pytest.FixtureRequest, folder: Path, kind: str) -> Stage:
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        harness: Harness = stack.enter_context(postgres.harness(server, folder, **SETTINGS))
        kwargs = harness.recipe()["kwargs"]
        parts = urlsplit(kwargs["url"])
        line = stack.enter_context(Line(parts.port or 5432))
        user = parts.netloc.rpartition("@")[0]
        url = parts._replace(netloc=f"{user}@{line.host}").geturl()
        return Stage(stack, harness, {**harness.recipe(), "kwargs": {**kwargs, "url": url}}, line)
    harness = stack.enter_context(sqlite.harness(folder, **SETTINGS))
    if kind == "sqlite":
        return Stage(stack, harness, harness.recipe(), None)
    host: Host = request.getfixturevalue("http_host")
    url, key, line = served(stack, host, harness)
    asked = {"servers": [(f"http://{line.host}", key)], "settings": SETTINGS}
    return Stage(stack, harness, {"call": "tests.kit.http:open_board", "kwargs": asked}, line)


def served(stack: ExitStack, host: Host, harness: Harness) -> tuple[str, str, Line]:
    """A server of this board, reached by a line whose place it knows as its own."""
    first, _ = host.serve(harness.recipe())
    port = int(first.rpartition(":")[2])
    host.stop(first)
    line = stack.enter_context(Line(port))
    url, key = host.serve(harness.recipe(), port=port, hosts=[line.host])
    stack.callback(host.stop, url)
    return url, key, line
