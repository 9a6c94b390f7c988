"""Stops a server that nobody uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

REFUSED = 400
#: Answers a valid code alone without a refusal.
LOGIN_PATH = "/login"
#: How often it is checked that the board is there.
LOOK_SECONDS = 2.0


class IdleStop:
    """Calls `stop` after `seconds` without a stream or a request, and when the board is gone. Only requests with a
    valid key, cookie or login code count: a page that was signed out, or another program on the machine, does not keep
    the server alive."""

    def __init__(
        self, app: ASGIApp, seconds: float, stop: Callable[[], None], is_gone: Callable[[], bool] = lambda: False
    ) -> None:
        self._app, self._seconds, self._stop, self._is_gone = app, seconds, stop, is_gone
        self._answering = 0
        self._timer: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._start_timer()
            self._look()
            await self._app(scope, receive, send)
            return
        counts = False

        async def send_and_count(message: Message) -> None:
            nonlocal counts
            if message["type"] == "http.response.start" and _is_use(scope, message["status"]):
                counts = True
                self._answering += 1
                self._stop_timer()
            await send(message)

        try:
            await self._app(scope, receive, send_and_count)
        finally:
            if counts:
                self._answering -= 1
                if not self._answering:
                    self._start_timer()

    def _look(self) -> None:
        if self._is_gone():
            self._stop()
        else:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._stop)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _is_use(scope: Scope, status: int) -> bool:
    return "caller" in scope.get("state", {}) or (scope["path"] == LOGIN_PATH and status < REFUSED)
