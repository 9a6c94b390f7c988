"""When a temporary server stops: after a time without a stream or a request, and not before."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from dibs.server.ops.idle import IdleStop

SECONDS = 0.01


def test_it_stops_when_nothing_is_answered_and_not_while_a_stream_is_open() -> None:
    async def scenario() -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        streaming, closed = asyncio.Event(), asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await send({"type": "http.response.start", "status": scope["status"]})
                streaming.set()
                await closed.wait()

        async def send(message: Message) -> None:
            pass

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        idle = IdleStop(app, SECONDS, stopped.set)

        async def request(status: int) -> None:
            await idle({"type": "http", "status": status}, receive, send)

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


def test_a_refused_request_does_not_count() -> None:
    async def scenario() -> None:
        stopped, over = asyncio.Event(), asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await send({"type": "http.response.start", "status": 401})
                await over.wait()

        async def nothing(*_: Any) -> Any:
            return None

        idle = IdleStop(app, SECONDS, stopped.set)
        await idle({"type": "lifespan"}, nothing, nothing)
        refused = asyncio.ensure_future(idle({"type": "http"}, nothing, nothing))
        await stopped.wait()
        over.set()
        await refused

    asyncio.run(asyncio.wait_for(scenario(), 30))
