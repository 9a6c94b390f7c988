"""Refusals as HTTP tells them: `application/problem+json` with the stable code, and the facts a program can use."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from dibs import api_keys
from dibs.errors import DibsError, Invalid
from dibs.server.api import bodies
from dibs.text import json_text, wire

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "cannot be claimed",
    401: "who are you?",
    408: "too slow",
    403: "not allowed",
    404: "not there",
    405: "not so",
    409: "taken",
    410: "too late",
    413: "too large",
    415: "not this type",
    421: "not this host",
    422: "not valid",
    429: "too fast",
    500: "our mistake",
    503: "try later",
}
#: Codes of what never reaches the board.
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


def body(status: int, code: str, detail: str, facts: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": f"urn:dibs:problem:{code}",
        "title": TITLES.get(status, "failed"),
        "status": status,
        "detail": detail,
        "code": code,
        "facts": wire.encode(facts or {}),
    }


def response(status: int, code: str, detail: str, facts: dict[str, Any] | None = None) -> Response:
    facts = facts or {}
    headers = {}
    if "retry_after_seconds" in facts:
        headers["Retry-After"] = str(max(1, math.ceil(facts["retry_after_seconds"])))
    if status == 408:
        # The rest of the body is not waited for.
        headers["Connection"] = "close"
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="dibs"'
    return Response(text(body(status, code, detail, facts)), status_code=status, headers=headers, media_type=MEDIA_TYPE)


def text(refusal: Mapping[str, Any]) -> str:
    """A refusal as it is sent, in whatever words. It repeats what was asked, and somebody may have put a key where it
    does not belong."""
    return api_keys.without_secrets(json_text.line(refusal))


async def refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, DibsError)
    return response(error.http_status, error.code, error.message, error.facts)


async def invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return await refused(request, first_of(error))


def first_of(error: RequestValidationError) -> Invalid:
    """What does not even have the shape in a path or a query; bodies are refused where they are read."""
    return bodies.first_of(error.errors()[0])


async def crashed(request: Request, error: Exception) -> Response:
    """A mistake of ours: what went wrong is in the log, and nowhere else."""
    return response(500, "ERROR", "something went wrong here; the server's log says what")


async def no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, "ERROR")
    told = response(error.status_code, code, f"{request.method} {request.url.path}: {error.detail}")
    if error.status_code == 405:
        told.headers["Allow"] = ", ".join(_allowed(request))
    return told


def _allowed(request: Request) -> list[str]:
    """What can be done at this path, by all of its routes together."""
    path = _template(request.scope.get("route"))
    routes = [route for route in request.app.routes if _template(route) == path]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})


def _template(route: object) -> str:
    return re.sub(r":\w+}", "}", getattr(route, "path", ""))
