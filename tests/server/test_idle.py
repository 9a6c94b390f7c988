"""When a temporary server stops: after a time without a stream or a request, and not before; and how it is stopped."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

import dibs
from dibs.server import background
from dibs.server.ops.idle import IdleStop

SECONDS = 0.01
#: Higher than the id of any process.
NO_PROCESS = 2**22 + 1


def test_it_stops_when_nothing_is_answered_and_not_while_a_stream_is_open() -> None:
    async def scenario() -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        streaming, closed = asyncio.Event(), asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                scope["state"] |= {"caller": "key"} if scope["status"] == 200 else {}
                await send({"type": "http.response.start", "status": scope["status"]})
                streaming.set()
                await closed.wait()

        async def send(message: Message) -> None:
            pass

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        idle = IdleStop(app, SECONDS, stopped.set)

        async def request(status: int) -> None:
            await idle({"type": "http", "path": "/v1/items", "state": {}, "status": status}, receive, send)

        async def later_than_its_timer() -> None:
            # The loop calls timers in the order of their times, however late it is.
            passed = asyncio.Event()
            loop.call_later(2 * SECONDS, passed.set)
            await passed.wait()

        stream = asyncio.ensure_future(request(200))
        await streaming.wait()
        await later_than_its_timer()
        assert not stopped.is_set()
        refused = asyncio.ensure_future(request(401))
        closed.set()
        await asyncio.gather(stream, refused)
        await stopped.wait()

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize(("path", "status"), [("/v1/items", 401), ("/login", 401), ("/livez", 200), ("/", 304)])
def test_a_request_without_a_key_or_a_valid_login_code_does_not_count(path: str, status: int) -> None:
    async def scenario() -> None:
        stopped, over = asyncio.Event(), asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await send({"type": "http.response.start", "status": status})
                await over.wait()

        async def nothing(*_: Any) -> Any:
            return None

        idle = IdleStop(app, SECONDS, stopped.set)
        await idle({"type": "lifespan"}, nothing, nothing)
        refused = asyncio.ensure_future(idle({"type": "http", "path": path}, nothing, nothing))
        await stopped.wait()
        over.set()
        await refused

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_one_that_ends_when_the_signal_is_sent_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    board = str(tmp_path / "board.db")
    dibs.connect(board, create=True).close()
    record = background.record_path(board)
    os.makedirs(os.path.dirname(record))
    server = os.open(record, os.O_RDWR | os.O_CREAT)
    fcntl.flock(server, fcntl.LOCK_EX)
    background.publish(server, background.Running(url="", pages="", pid=NO_PROCESS))
    kill = os.kill

    def end_and_kill(pid: int, number: int) -> None:
        os.close(server)
        kill(pid, number)

    monkeypatch.setattr(os, "kill", end_and_kill)
    assert background.stop(board)
    assert not os.path.exists(record)
