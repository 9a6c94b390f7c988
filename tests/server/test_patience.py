"""How long a caller is waited for: for the head of a request, for its body; and a stream whose key is revoked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState

from dibs.server.auth import guard
from dibs.server.auth.guard import Guard
from dibs.server.ops.connection import HEAD_BYTES_MAX, HEAD_SECONDS, Connection


class Timer:
    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.call, self.cancelled = seconds, call, False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop in which only the timers are looked at."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(seconds, call))
        return self.timers[-1]

    def create_task(self, work: Any) -> asyncio.Future[None]:
        work.close()
        return asyncio.Future()

    def running(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.cancelled]


class Transport(asyncio.Transport):
    closed = False
    written = b""

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self.written += data


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    pass


def connected() -> tuple[Connection, Loop, Transport]:
    config = uvicorn.Config(silent, http=Connection, log_config=None, lifespan="off")
    config.load()
    loop, transport = Loop(), Transport()
    connection = Connection(config, ServerState(), {}, _loop=loop)  # type: ignore[arg-type]
    connection.connection_made(transport)
    return connection, loop, transport


def test_who_does_not_finish_the_head_of_a_request_is_cut_off() -> None:
    async def look() -> None:
        for sent in (b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: y"):
            connection, loop, transport = connected()
            connection.data_received(sent)
            (timer,) = loop.running()
            assert timer.seconds == HEAD_SECONDS
            timer.call()
            assert transport.closed, sent

    asyncio.run(look())


def test_who_finishes_it_is_waited_for_no_more_until_the_next_one() -> None:
    async def look() -> None:
        connection, loop, transport = connected()
        connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert not loop.running()
        connection.cycle.response_complete = True
        connection.data_received(b"GET / HT")
        assert len(loop.running()) == 1
        assert not transport.closed

    asyncio.run(look())


def test_a_line_that_does_not_end_is_not_read_to_its_end() -> None:
    """Piece by piece, the parser tells of nothing before the line is complete."""

    async def look() -> None:
        for begun in (b"GET /", b"GET / HTTP/1.1\r\nX: "):
            connection, _, transport = connected()
            connection.data_received(begun)
            for _ in range(HEAD_BYTES_MAX // 1024):
                assert not transport.closed
                connection.data_received(b"a" * 1024)
            assert transport.closed, begun
            assert transport.written.startswith(b"HTTP/1.1 400")

    asyncio.run(look())


def test_the_rest_of_a_body_that_nobody_read_is_not_waited_for_without_end() -> None:
    async def look() -> None:
        connection, loop, transport = connected()
        connection.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
        assert not loop.running()
        connection.cycle.response_complete = True
        connection.on_response_complete()
        (timer,) = [timer for timer in loop.running() if timer.seconds == HEAD_SECONDS]
        timer.call()
        assert transport.closed

    asyncio.run(look())


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.01)
    sent: list[Message] = []

    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    async def noted(message: Message) -> None:
        sent.append(message)

    guarded = Guard(reading, hosts=frozenset({"here"}), origins=frozenset(), log=None)
    headers = [(b"host", b"here"), (b"content-length", b"5"), (b"content-type", b"application/json")]
    asyncio.run(guarded({"type": "http", "method": "POST", "path": "/", "headers": headers}, never, noted))
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
