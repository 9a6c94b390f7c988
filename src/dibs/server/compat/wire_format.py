"""What the wire formats of other systems share: a refusal has the form that the format defines, and the OpenAPI
document describes that form.

A request that reaches no route of a format (refused by the guard, or an unknown path) gets the usual problem.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from dibs.errors import DibsError, Invalid
from dibs.server.api.endpoints import REFUSALS, AuthRoute, Responses, reference
from dibs.server.api.responses import ANSWER_BYTES_MAX, JSON, invalid_parameter, problem_headers, redacted_json
from dibs.server.service import Service
from dibs.text import json_text

#: Statuses of requests that reach no route: refused by the guard, or with a name that cannot be part of a path.
BEFORE_ROUTING = (403, 404, 413, 415, 421)


class FormatRequest(BaseModel):
    """Ignores unknown fields, as the systems do that these formats come from."""

    model_config = ConfigDict(extra="ignore", strict=True)


class FormatAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid")


def route_class(refuse: Callable[[DibsError], Response]) -> type[AuthRoute]:
    """Routes whose refusals `refuse` writes."""

    class FormatRoute(AuthRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handler(request: Request) -> Response:
                try:
                    return await handle(request)
                except DibsError as error:
                    return refuse(error)
                except RequestValidationError as error:
                    return refuse(invalid_parameter(error))

            return handler

    return FormatRoute


async def run(service: Service, work: Callable[[], Mapping[str, Any]]) -> Response:
    return await service.run(lambda: _json(work()))


async def read(service: Service, work: Callable[[], Mapping[str, Any]]) -> Response:
    """`run` for reads: an answer that is too long is refused."""

    def answer() -> Response:
        found = _json(work())
        if len(found.body) > ANSWER_BYTES_MAX:
            raise Invalid(f"the answer has over {ANSWER_BYTES_MAX} bytes; GET /v1/items and /v1/runs have pages")
        return found

    return await service.read(answer)


def _json(value: Mapping[str, Any]) -> Response:
    """Not `responses.answer`, which gives meaning to some keys: here a key can be any name that a person chose."""
    return Response(json_text.line(value), media_type=JSON)


def refusal(error: DibsError, status: int, body: Mapping[str, Any]) -> Response:
    headers = problem_headers(status, error.facts)
    return Response(redacted_json(body), status_code=status, headers=headers, media_type=JSON)


def describe_refusals(model: type[BaseModel], reasons: Mapping[int, str]) -> Responses:
    found: Responses = {
        status: {"content": {JSON: {"schema": reference(model)}}, "description": reason}
        for status, reason in reasons.items()
    }
    for status in BEFORE_ROUTING:
        common = REFUSALS[status]
        known = found.get(status, {"content": {}, "description": common["description"]})
        found[status] = {**known, "content": {**known["content"], **common["content"]}}
    return found
