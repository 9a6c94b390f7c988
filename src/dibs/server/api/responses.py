"""Answers and refusals as HTTP responses. A refusal is `application/problem+json` with a stable code and its facts."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from dibs import api_keys
from dibs.errors import DibsError, Invalid
from dibs.server.api import bodies
from dibs.store.contract import Page
from dibs.text import json_text, wire

JSON, PROBLEM_JSON = "application/json", "application/problem+json"
ANSWER_BYTES_MAX = 16_000_000
#: Smaller answers fit into one packet either way. The level is the best one that costs less than encoding the JSON.
GZIP_BYTES_MIN, GZIP_LEVEL = 1400, 4
SMALLER = "request fewer with a limit or a filter, or pages with bytes_max where the verb has it"
TITLES = {one.value: one.phrase for one in HTTPStatus}
#: `json.dumps` would make one for each answer.
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
#: Codes of requests that never reach the board.
CODES = {
    400: "NOT_JSON",
    401: "UNAUTHENTICATED",
    404: "NO_SUCH_ROUTE",
    405: "METHOD_NOT_ALLOWED",
    408: "TOO_SLOW",
    413: "TOO_LARGE",
    415: "NOT_JSON",
    421: "WRONG_HOST",
}


def answer(value: Any, *, in_pages: bool = False, newest: bool = False, gzipped: bool = False) -> Response:
    """A value as JSON. An answer over the size limit is refused, or cut into a page if the caller asked for pages.
    Encoding a long answer takes time: do not call this in the event loop."""
    if not isinstance(value, list | tuple):
        return _response(_encoded(value), 200, gzipped)
    pieces = _fitting(reversed(value))[::-1] if newest else _fitting(value)
    more = len(pieces) < len(value) or (isinstance(value, Page) and value.more)
    if more and not in_pages:
        # A caller that does not know about pages would take the first page for the whole answer.
        raise Invalid(f"the answer has over {ANSWER_BYTES_MAX} bytes; {SMALLER}", field="limit", fit=len(pieces))
    return _response(b"[" + b",".join(pieces) + b"]", 206 if more else 200, gzipped)


def accepts_gzip(request: Request) -> bool:
    """Whether the client takes gzip; `gzip;q=0` says that it does not."""
    for coding in request.headers.get("accept-encoding", "").split(","):
        name, _, weight = coding.partition(";")
        if name.strip().lower() == "gzip":
            return weight.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _response(content: bytes, status: int, gzipped: bool) -> Response:
    headers = {"Vary": "Accept-Encoding"}
    if gzipped and len(content) >= GZIP_BYTES_MIN:
        # The time stamp of the format would make equal answers differ.
        content, headers["Content-Encoding"] = gzip.compress(content, GZIP_LEVEL, mtime=0), "gzip"
    return Response(content, status_code=status, headers=headers, media_type=JSON)


def _fitting(values: Iterable[Any]) -> list[bytes]:
    """As many encoded values as fit into an answer, at least one. `bytes_max` of the store counts characters, each of
    which can take six bytes here. Encoded one at a time, because the encoder holds the GIL for the whole of a call."""
    pieces: list[bytes] = []
    size = 0
    for value in values:
        piece = _encoded(value)
        size += len(piece) + 1
        if size > ANSWER_BYTES_MAX and pieces:
            break
        pieces.append(piece)
    return pieces


def _encoded(value: Any) -> bytes:
    return _encoder.encode(wire.encode(value)).encode()


def problem(status: int, code: str, detail: str, facts: dict[str, Any] | None = None) -> Response:
    content = redacted_json(problem_body(status, code, detail, facts))
    headers = problem_headers(status, facts or {})
    return Response(content, status_code=status, headers=headers, media_type=PROBLEM_JSON)


def problem_body(status: int, code: str, detail: str, facts: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": f"urn:dibs:problem:{code}",
        "title": TITLES.get(status, "Failed"),
        "status": status,
        "detail": detail,
        "code": code,
        "facts": wire.encode(facts or {}),
    }


def problem_headers(status: int, facts: Mapping[str, Any]) -> dict[str, str]:
    headers = {}
    if "retry_after_seconds" in facts:
        headers["Retry-After"] = str(max(1, math.ceil(facts["retry_after_seconds"])))
    if status == 408:
        # The rest of the body may never arrive.
        headers["Connection"] = "close"
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="dibs"'
    return headers


def redacted_json(refusal: Mapping[str, Any]) -> str:
    """A refusal repeats parts of the request, and a caller may have put a key where none belongs."""
    return api_keys.without_secrets(json_text.line(refusal))


def refused(error: DibsError) -> Response:
    return problem(error.http_status, error.code, error.message, error.facts)


def crashed() -> Response:
    """Only the log describes the error, which may contain private data."""
    return problem(500, "ERROR", "internal error; the server's log has the details")


# Exception handlers


async def on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, DibsError)
    if "app" in request.scope:
        request.app.state.service.note(error)
    return refused(error)


async def on_invalid_parameter(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return refused(invalid_parameter(error))


def invalid_parameter(error: RequestValidationError) -> Invalid:
    """The first invalid parameter of a path or a query; `bodies` validates bodies."""
    return bodies.invalid(error.errors()[0])


async def on_crash(request: Request, error: Exception) -> Response:
    return crashed()


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, "ERROR")
    response = problem(error.status_code, code, f"{request.method} {request.url.path}: {error.detail}")
    if error.status_code == 405:
        response.headers["Allow"] = ", ".join(_allowed_methods(request))
    return response


#: What answers each kind of exception; the first that fits.
HANDLERS: Mapping[type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    DibsError: on_refusal,
    RequestValidationError: on_invalid_parameter,
    HTTPException: on_http_error,
    Exception: on_crash,
}


def _allowed_methods(request: Request) -> list[str]:
    path = _template(request.scope.get("route"))
    routes = [route for route in request.app.routes if _template(route) == path]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})


def _template(route: object) -> str:
    """A route's path without converters: routes of one path may differ in them."""
    return re.sub(r":\w+}", "}", getattr(route, "path", ""))
