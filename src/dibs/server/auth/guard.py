"""The first checks of every request: host, origin, content type, size and time of the body. Also logs the request.

A web page can make a browser send requests to a server on the same machine, under any host name that resolves to it.
So the Host header must be one of ours, exactly, and a change must come from one of our pages or from no page at all.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from typing import TextIO

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dibs.server.api import responses
from dibs.server.ops.connection import COMPLETE_EXTENSION, CREDENTIALS, Take, TakesWhole
from dibs.server.ops.logs import AccessLog
from dibs.server.shares import LoopTurns, halves

BODY_BYTES_MAX = 8_000_000
BODY_SECONDS = 60.0
JSON_TYPES = (b"application/json",)
#: Like JSON, types that a browser sends to another origin only after a CORS preflight.
ARCHIVE_TYPES = (b"application/octet-stream", b"application/x-ndjson")
READS = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
HEADER_NAMES = frozenset(name for name, _ in HEADERS)
#: How many requests are routed and checked in one round of the event loop: a thousand at once would hold it up.
#: They take turns by what they authenticate with, which is not known to be valid yet.
BEGUN_AT_ONCE = halves(8)
TOO_LARGE = f"a body has at most {BODY_BYTES_MAX} bytes"


class BodyRefused(HTTPException):
    """The body became too large or took too long while it was read."""


class Guard(TakesWhole):
    """`take` takes requests that arrived as a whole (see `TakesWhole`), and `app` all others. `hosts` are the values of
    the Host header that name this server, `origins` those of its own pages. `archive_paths` accept bodies of any size
    that are whole boards."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        origins: frozenset[str],
        take: Take | None = None,
        log: TextIO | None = sys.stderr,
        log_json: bool = False,
        on_request: Callable[[str, str, int, float], None] | None = None,
        archive_paths: frozenset[str] = frozenset(),
    ) -> None:
        self._app, self._take = app, take
        self._hosts, self._origins, self._archive_paths = hosts, origins, archive_paths
        self._log = AccessLog(log, log_json)
        self._on_request = on_request
        self._begun = LoopTurns(BEGUN_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        assert scope["type"] == "http", "websockets are not served"
        began, status, started = time.perf_counter(), 500, False
        await self._begun.step(_credentials(scope))

        async def send_with_headers(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = _with_headers(message["headers"])
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await responses.problem(*refusal)(scope, receive, send_with_headers)
            else:
                await self._app(scope, self._limited(scope, receive), send_with_headers)
        except BodyRefused as error:
            if not started:
                code = responses.CODES[error.status_code]
                await responses.problem(error.status_code, code, error.detail)(scope, receive, send_with_headers)
        finally:
            self._observe(scope, status, began)

    def take(self, scope: Scope, body: bytes, respond: Callable[[Response], None]) -> bool:
        began = time.perf_counter()

        def respond_with_headers(response: Response) -> None:
            response.raw_headers = _with_headers(response.raw_headers)
            respond(response)
            self._observe(scope, response.status_code, began)

        if self._take is None or self._refusal(scope) is not None:
            return False
        return self._take(scope, body, respond_with_headers)

    def _observe(self, scope: Scope, status: int, began: float) -> None:
        seconds = time.perf_counter() - began
        if self._on_request is not None:
            path = getattr(scope.get("route"), "path", None) or "other"
            self._on_request(scope["method"], path, status, seconds)
        self._log.write(scope, status, seconds)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        # Names are in lower case: ASGI prescribes it.
        headers = dict(scope["headers"])
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        # A proxy in front of the server may have checked only one of several Host headers.
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._hosts:
            return 421, "WRONG_HOST", "this server does not have that host name; dibs serve --name NAME adds one"
        if scope["method"] in READS:
            return None
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if any(origin.decode("latin-1").lower() not in self._origins for origin in origins):
            return 403, "FORBIDDEN", "a page of another origin may not change anything here"
        if not origins and b"cookie" in headers and b"authorization" not in headers:
            # Browsers send an Origin with every change.
            return 403, "FORBIDDEN", "a change with a cookie needs an Origin header"
        is_archive = scope["path"] in self._archive_paths
        accepted = ARCHIVE_TYPES if is_archive else JSON_TYPES
        content_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        length = headers.get(b"content-length", b"0")
        has_body = length.strip(b"0") != b"" or b"transfer-encoding" in headers
        if has_body and content_type not in accepted:
            code = "NOT_A_BOARD" if is_archive else "NOT_JSON"
            return 415, code, f"the Content-Type of the body must be {accepted[0].decode()}"
        if not is_archive and length.isdigit() and (len(length) > 18 or int(length) > BODY_BYTES_MAX):
            return 413, "TOO_LARGE", TOO_LARGE
        return None

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Receives a body within the limits of size and time."""
        if scope["path"] in self._archive_paths:
            return receive
        size, complete = 0, False
        deadline = asyncio.get_running_loop().time() + BODY_SECONDS

        async def receive_limited() -> Message:
            nonlocal size, complete
            if complete:
                # Only the disconnect is left, which may come at any time.
                return await receive()
            try:
                if COMPLETE_EXTENSION in scope.get("extensions", ()):
                    message = await receive()
                else:
                    async with asyncio.timeout_at(deadline):
                        message = await receive()
            except TimeoutError:
                raise BodyRefused(408, f"the body did not arrive within {BODY_SECONDS:.0f} seconds") from None
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > BODY_BYTES_MAX:
                raise BodyRefused(413, TOO_LARGE)
            return message

        return receive_limited


def _credentials(scope: Scope) -> str:
    found = next((value for name, value in scope["headers"] if name in CREDENTIALS), b"")
    return found.decode("latin-1")


def _with_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response, with those of every response that it does not have itself."""
    own = list(headers)
    known = {name.lower() for name, _ in own}
    return own + (HEADERS if known.isdisjoint(HEADER_NAMES) else [one for one in HEADERS if one[0] not in known])
