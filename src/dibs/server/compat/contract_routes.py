"""What the wire formats of others have in common: also a refusal is told in their words, and described so.

A request that never gets to their routes (the guard's hosts, origins, types and sizes; no such path) is told as
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from dibs.errors import DibsError, Invalid
from dibs.model import ADMIN
from dibs.server.api import problems
from dibs.server.api.routes import ANSWER_BYTES_MAX, REFUSALS
from dibs.server.auth.auth_route import Keyed
from dibs.server.auth.callers import Caller
from dibs.server.service import Service
from dibs.text import json_text

#: What never gets to a route is a problem in every format: turned away by the guard, or with a name in its path that no
#: path can have.
OUTSIDE = (403, 404, 413, 415, 421)


class Said(BaseModel):
    """A body of theirs. What is not known of is passed over, as they do."""

    model_config = ConfigDict(extra="ignore", strict=True)


class Told(BaseModel):
    """An answer of theirs."""

    model_config = ConfigDict(extra="forbid")


def speaking(by: Service, refused: Callable[[DibsError], Response]) -> type[Keyed]:
    """A kind of route that tells every refusal so."""

    class Foreign(Keyed):
        service = by

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handler(request: Request) -> Response:
                try:
                    return await handle(request)
                except DibsError as error:
                    return refused(error)
                except RequestValidationError as error:
                    return refused(problems.first_of(error))

            return handler

    return Foreign


def told(value: Mapping[str, Any], status: int = 200) -> Response:
    """An answer as it is. Keys may be names that people chose, so none of them means anything here."""
    return Response(json_text.line(value), status_code=status, media_type="application/json")


async def read(service: Service, work: Callable[[], Mapping[str, Any]]) -> Response:
    """An answer of what is only read, and may be long: one that is too long is refused."""

    def answer() -> Response:
        found = told(work())
        if len(found.body) > ANSWER_BYTES_MAX:
            raise Invalid(f"the answer has over {ANSWER_BYTES_MAX} bytes; GET /v1/items and /v1/runs have pages")
        return found

    return await service.read(answer)


def no(error: DibsError, status: int, body: Mapping[str, Any]) -> Response:
    """A refusal in their words, with the headers that belong to it in any."""
    response = Response(problems.text(body), status_code=status, media_type="application/json")
    known = problems.response(status, error.code, error.message, error.facts).headers
    for name in ("retry-after", "www-authenticate"):
        if name in known:
            response.headers[name] = known[name]
    return response


def message(error: DibsError) -> str:
    found: str = problems.body(error.http_status, error.code, error.message)["detail"]
    return found


def described(schema: str, reasons: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route for the OpenAPI document. `schema` is known there from a route that names its model."""
    own = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    found: dict[int | str, dict[str, Any]] = {
        status: {"content": dict(own), "description": reason} for status, reason in reasons.items()
    }
    for status in OUTSIDE:
        common = REFUSALS[status]
        known = found.get(status, {"content": {}, "description": common["description"]})
        found[status] = {**known, "content": {**known["content"], **common["content"]}}
    return found


def registered_by(caller: Caller) -> str | None:
    """The key that a new session belongs to; None: any admin's."""
    return None if caller.role == ADMIN else caller.key
