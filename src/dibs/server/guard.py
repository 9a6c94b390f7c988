"""What every request has to pass before anything looks at it: host, origin, content type, size. And its log line.

A page in somebody's browser can send requests to a server on their machine, under any name that it makes point there:
so the Host is one of ours, exactly, and whatever changes something comes from one of our own pages or from no page.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TextIO

from dibs.server import problems

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_BYTES_MAX = 8_000_000
READS = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


class TooLarge(Exception):
    pass


class Guard:
    """`hosts` are the exact values of the Host header that are ours; `origins` those of our own pages."""

    def __init__(
        self,
        app: App,
        *,
        hosts: frozenset[str],
        origins: frozenset[str],
        log: TextIO | None = sys.stderr,
        log_json: bool = False,
        measured: Callable[[str, str, int, float], None] | None = None,
        large: frozenset[str] = frozenset(),
    ) -> None:
        self._app = app
        self._hosts, self._origins, self._large = hosts, origins, large
        self._log, self._log_json = log, log_json
        self._measured = measured

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, started = time.perf_counter(), 500, False
        headers = {name.lower(): value for name, value in scope["headers"]}

        async def sending(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in HEADERS if one[0] not in known)]
            await send(message)

        try:
            refusal = self._refusal(scope, headers)
            if refusal is not None:
                await problems.response(*refusal)(scope, receive, sending)
            else:
                await self._app(scope, self._counted(scope, receive), sending)
        except TooLarge:
            if not started:
                too_large = problems.response(413, "TOO_LARGE", f"a body has {BODY_BYTES_MAX} bytes at most")
                await too_large(scope, receive, sending)
        finally:
            self._tell(scope, status, time.perf_counter() - began)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host not in self._hosts:
            return 421, "WRONG_HOST", "this server does not go by that name"
        if scope["method"] in READS:
            return None
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in self._origins:
            return 403, "FORBIDDEN", "a page of another origin changes nothing here"
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        if has_body and kind != b"application/json" and scope["path"] not in self._large:
            return 415, "NOT_JSON", "a body is sent as application/json"
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > BODY_BYTES_MAX and scope["path"] not in self._large:
            return 413, "TOO_LARGE", f"a body has {BODY_BYTES_MAX} bytes at most"
        return None

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """A body without a length is counted as it comes."""
        if scope["path"] in self._large:
            return receive
        total = 0

        async def counting() -> Message:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            if total > BODY_BYTES_MAX:
                raise TooLarge
            return message

        return counting

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        """One line a request: the path without its query, which may hold what is nobody's business."""
        route = scope.get("route")
        path = getattr(route, "path", None) or "other"
        if self._measured is not None:
            self._measured(scope["method"], path, status, seconds)
        if self._log is None:
            return
        client = (scope.get("client") or ("-",))[0]
        caller = scope.get("state", {}).get("caller", "-")
        if self._log_json:
            line = json.dumps(
                {
                    "at": _now(),
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "ms": round(seconds * 1000, 1),
                    "client": client,
                    "key": caller,
                }
            )
        else:
            path = "".join(sign if sign.isprintable() else "?" for sign in scope["path"])
            line = f"{_now()} {scope['method']} {path} {status} {seconds * 1000:.1f}ms {client} {caller}"
        try:
            self._log.write(line + "\n")
            self._log.flush()
        except (OSError, ValueError):
            pass  # nobody reads the log any more, and the work goes on


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
