"""Those who wait at a server: who hangs up makes room at once and is given nothing, and nobody takes all the room."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import Request
from starlette.types import Message

from dibs.board import Board
from dibs.board import base as board_base
from dibs.errors import StoreUnavailable
from dibs.model import AGENT, Grant, Key, Waiting
from dibs.server import service as service_module
from dibs.server.service import Service
from dibs.server.streams.feed import ClientGone, Waiter
from dibs.store.contract import Store
from dibs.testing.delegate import Delegate
from tests.kit import sqlite
from tests.kit.http import Host
from tests.kit.waiting import PATIENCE_SECONDS
from tests.server.attacking import Caller, Served, served

#: Longer than any test is waited for: who is not told that its caller left is found out.
WAIT_SECONDS = 10 * PATIENCE_SECONDS


class Asking:
    """Somebody who was let in with a key, asks, and may leave."""

    def __init__(self, key: tuple[Key, str]) -> None:
        self._leaves = asyncio.Event()
        headers = [(b"authorization", f"Bearer {key[1]}".encode())]
        self.request = Request({"type": "http", "method": "POST", "headers": headers}, self._receive)
        self.request.state.caller = key[0].id

    def leave(self) -> None:
        self._leaves.set()

    async def _receive(self) -> Message:
        await self._leaves.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with sqlite.harness(tmp_path) as harness:
        board = harness.board()
        board.start_session("coder", id="me")
        yield Service(board.store, board.settings, sweeps=False)


async def within(work: asyncio.Future[Any]) -> Any:
    return await asyncio.wait_for(asyncio.shield(work), PATIENCE_SECONDS)


def test_who_hangs_up_is_given_nothing(service: Service) -> None:
    async def look() -> None:
        service.start()
        caller, looked = Asking(service.board.create_key(AGENT)), threading.Event()

        def work(board: Board) -> object:
            looked.set()
            return board.next(session="me", wait_seconds=WAIT_SECONDS)

        waiting = asyncio.ensure_future(service.wait(caller.request, work))
        assert await service.run(lambda: looked.wait(PATIENCE_SECONDS))
        caller.leave()
        with pytest.raises(ClientGone):
            await within(waiting)
        await service.run(lambda: service.board.add("T", id="t"))
        assert (await service.run(lambda: service.board.get("t"))).item.status == "ready"

    try:
        asyncio.run(look())
    finally:
        service.close()


def test_who_waits_is_woken_by_the_commit_itself(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The feed is not followed here: of what this process frees, nothing has to come back to it from outside."""
    monkeypatch.setattr(board_base, "OWNER_LOOK_SECONDS", WAIT_SECONDS)
    watched, wait = threading.Event(), service.feed.wait

    def watching(seen: int, waiter: Waiter, timeout_seconds: float) -> int:
        watched.set()
        return wait(seen, waiter, timeout_seconds)

    monkeypatch.setattr(service.feed, "wait", watching)

    async def look() -> None:
        caller = Asking(service.board.create_key(AGENT))
        waiting = asyncio.ensure_future(
            service.wait(caller.request, lambda board: board.next(session="me", wait_seconds=WAIT_SECONDS))
        )
        assert await service.run(lambda: watched.wait(PATIENCE_SECONDS))
        await service.run(lambda: service.board.add("T", id="t"))
        (grant,) = await within(waiting)
        assert grant.item.id == "t"

    try:
        asyncio.run(look())
    finally:
        service.close()


class NoRoom(Delegate):
    """A server at which too many wait already."""

    waits = True
    asked = 0

    def next_in_time(self, wait_seconds: float, **asked: Any) -> tuple[Grant, ...]:
        self.asked += 1
        raise StoreUnavailable("the server already has 256 waiting requests", retry_after_seconds=1)

    def wait_in_time(self, wait_seconds: float, item: str, **asked: Any) -> Waiting:
        self.asked += 1
        raise StoreUnavailable("the server already has 256 waiting requests", retry_after_seconds=1)


def test_who_finds_no_room_to_wait_in_watches_for_itself(tmp_path: Path) -> None:
    with sqlite.harness(tmp_path) as harness:
        full = NoRoom(harness.board().store)
        crowded, board = Board(cast("Store", full), harness.board().settings, actor="me"), harness.board()
        for session in ("me", "holder"):
            board.start_session("coder", id=session)
        board.add("T", id="t")
        board.claim("t", session="holder")

        def release(standing: Waiting) -> None:
            if standing.claim is not None:
                board.release("t", session="holder")

        assert crowded.claim("t", session="me", wait_seconds=WAIT_SECONDS, on_wait=release).claim.token == 2
        later = threading.Timer(0.05, lambda: board.add("U", id="u"))
        later.start()
        (grant,) = crowded.next(session="me", wait_seconds=WAIT_SECONDS)
        later.join()
        assert (grant.item.id, full.asked > 0) == ("u", True)


def test_nobody_takes_all_the_room_and_who_leaves_makes_room(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "WAITS", service_module.WAITS.replace(limit=3, limit_per_key=2))
    one, other, third = (service.board.create_key(AGENT) for _ in range(3))

    async def look() -> None:
        service.start()
        callers = [Asking(key) for key in (one, one, one, other, third)]
        begun = [
            asyncio.ensure_future(
                service.wait(caller.request, lambda board: board.next(session="me", wait_seconds=WAIT_SECONDS))
            )
            for caller in callers
        ]
        with pytest.raises(StoreUnavailable, match="this key already has 2 waiting") as refused:
            await within(begun[2])
        assert refused.value.facts == {"limit": 2, "retry_after_seconds": 1}
        with pytest.raises(StoreUnavailable, match="the server already has 3 waiting"):
            await within(begun[4])
        callers[0].leave()
        with pytest.raises(ClientGone):
            await within(begun[0])
        assert await service.wait(callers[2].request, lambda board: board.next(session="me")) == ()
        assert not any(begun[still].done() for still in (1, 3))
        service.stop()
        await asyncio.gather(*begun, return_exceptions=True)

    try:
        asyncio.run(look())
    finally:
        service.close()


@pytest.fixture
def shop(http_host: Host, tmp_path: Path) -> Iterator[Served]:
    with served(http_host, tmp_path) as found:
        yield found


def test_a_place_in_a_queue_is_given_up_by_who_hangs_up(shop: Served) -> None:
    """Over the wire, behind the guard: the ticket goes with the connection."""
    caller = shop.admin
    for session in ("holder", "s"):
        shop.board.start_session("coder", id=session)
    shop.board.add("T", id="t")
    shop.board.claim("t", session="holder")
    body = json.dumps({"session": "s"})
    waiting = socket.create_connection((caller.host, caller.port), PATIENCE_SECONDS)
    waiting.sendall(
        f"POST /v1/items/t/claim?wait=60 HTTP/1.1\r\nHost: {caller.host}:{caller.port}\r\n"
        f"Authorization: Bearer {caller.key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    _until(shop, waiters=1)
    waiting.close()
    _until(shop, waiters=0)
    shop.board.done("t", session="holder")
    assert shop.board.get("t").item.status == "done"


def test_nobody_waits_longer_than_the_server_lets_them(http_host: Host, tmp_path: Path) -> None:
    with sqlite.harness(tmp_path) as harness:
        url, key = http_host.serve(harness.recipe(), wait_seconds_max=0.2)
        try:
            caller = Caller(url, key)
            harness.board().start_session("coder", id="me")
            # Each within the patience of a caller, which is shorter than what was asked.
            assert caller.ok("POST", "/v1/next?wait=60", {"session": "me"}) == []
            assert caller.ok("GET", "/v1/watch?after=1000&wait=60")["event"] < 1000
            for path in ("/v1/next?wait=61", "/v1/next?wait=-1", "/v1/next?wait=nan"):
                assert caller("POST", path, {"session": "me"}).status == 422, path
            assert caller("GET", "/v1/watch?after=1000&wait=61").status == 422
            twice = caller("POST", "/v1/next?wait=1", {"session": "me", "wait_seconds": 1})
            assert (twice.status, twice.json["facts"]["field"]) == (422, "wait_seconds")
        finally:
            http_host.stop(url)


def _until(shop: Served, *, waiters: int) -> None:
    after = 0
    for _ in range(PATIENCE_SECONDS):
        if len(shop.board.get("t").waiters) == waiters:
            return
        after = shop.admin.ok("GET", f"/v1/watch?after={after}&wait=1")["event"]
    raise AssertionError(f"there are not {waiters} waiters")
