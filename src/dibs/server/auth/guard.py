"""What every request has to pass before anything looks at it: host, origin, content type, size. And its log line.

A page in somebody's browser can send requests to a server on their machine, under any name that it makes point there:
so the Host is one of ours, exactly, and whatever changes something comes from one of our own pages or from no page.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TextIO

from starlette.exceptions import HTTPException

from dibs import api_keys
from dibs.server.api import problems
from dibs.server.ops.log_lines import at

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_BYTES_MAX = 8_000_000
#: Within this time a body is here, or it is not waited for.
BODY_SECONDS = 60.0
JSON = (b"application/json",)
#: What no page can send without being asked where it comes from, as little as JSON.
WHOLE_BOARDS = (b"application/octet-stream", b"application/x-ndjson")
READS = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


class TooLarge(HTTPException):
    def __init__(self) -> None:
        super().__init__(413, f"a body has {BODY_BYTES_MAX} bytes at most")


class TooSlow(HTTPException):
    def __init__(self) -> None:
        super().__init__(408, f"a body is sent within {BODY_SECONDS:.0f} seconds")


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
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        assert scope["type"] == "http", "nothing else is spoken here"
        began, status, started = time.perf_counter(), 500, False

        async def sending(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in HEADERS if one[0] not in known)]
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await problems.response(*refusal)(scope, receive, sending)
            else:
                await self._app(scope, self._counted(scope, receive), sending)
        except (TooLarge, TooSlow) as error:
            if not started:
                code = problems.CODES[error.status_code]
                await problems.response(error.status_code, code, error.detail)(scope, receive, sending)
        finally:
            self._tell(scope, status, time.perf_counter() - began)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        named = [value for name, value in scope["headers"] if name.lower() == b"host"]
        # Of two, somebody before us may have looked at the other one.
        if len(named) != 1 or named[0].decode("latin-1").lower() not in self._hosts:
            return 421, "WRONG_HOST", "this server does not go by that name; dibs serve --name NAME gives it another"
        if scope["method"] in READS:
            return None
        origins = [value for name, value in scope["headers"] if name.lower() == b"origin"]
        if any(origin.decode("latin-1").lower() not in self._origins for origin in origins):
            return 403, "FORBIDDEN", "a page of another origin changes nothing here"
        if not origins and b"cookie" in headers and b"authorization" not in headers:
            # A browser says where a change comes from. Whatever sends its cookie without that is none, or an odd one.
            return 403, "FORBIDDEN", "a change that is signed by a cookie says its Origin"
        is_large = scope["path"] in self._large
        wanted = WHOLE_BOARDS if is_large else JSON
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        length = headers.get(b"content-length", b"0")
        has_body = length.strip(b"0") != b"" or b"transfer-encoding" in headers
        if has_body and kind not in wanted:
            return 415, "NOT_A_BOARD" if is_large else "NOT_JSON", f"a body is sent here as {wanted[0].decode()}"
        if not is_large and length.isdigit() and (len(length) > 18 or int(length) > BODY_BYTES_MAX):
            return 413, "TOO_LARGE", f"a body has {BODY_BYTES_MAX} bytes at most"
        return None

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """A body is counted as it comes, and does not take for ever."""
        if scope["path"] in self._large:
            return receive
        total, complete = 0, False
        end = asyncio.get_running_loop().time() + BODY_SECONDS

        async def counting() -> Message:
            nonlocal total, complete
            if complete:
                # Only that the caller leaves can still come, whenever that is.
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise TooSlow from None
            total += len(message.get("body", b""))
            complete = not message.get("more_body", False)
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
        shown = api_keys.without_secrets(scope["path"])
        if self._log_json:
            line = json.dumps(
                {
                    "at": at(time.time()),
                    "method": scope["method"],
                    "path": shown,
                    "status": status,
                    "ms": round(seconds * 1000, 1),
                    "client": client,
                    "key": caller,
                }
            )
        else:
            shown = "".join(sign if sign.isprintable() and sign != " " else "?" for sign in shown)
            line = f"{at(time.time())} {scope['method']} {shown} {status} {seconds * 1000:.1f}ms {client} {caller}"
        try:
            self._log.write(line + "\n")
            self._log.flush()
        except (OSError, ValueError):
            pass  # nobody reads the log any more, and the work goes on
