"""How routes are declared: authenticated before the request is read, and described in the OpenAPI document.

A body can have 8 MB, arrive slowly, and be costly to parse. So a caller whose key or role does not suffice is refused
before any of it is read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import Match
from starlette.types import Scope

from dibs.model import VIEWER
from dibs.server.api import examples
from dibs.server.api.responses import JSON, PROBLEM_JSON, problem_body
from dibs.server.api.schemas import Problem
from dibs.server.auth.callers import set_cookie
from dibs.value import Value

#: The property of an operation that names the role it needs. Operations without it are open to everyone.
ROLE = "x-dibs-role"
SCHEMAS = "#/components/schemas/"
#: Stands for null in examples: FastAPI drops every null from its document. No answer contains this text.
NULL = "\0null"

Responses = dict[int | str, dict[str, Any]]

#: Models that the document refers to by name and FastAPI does not see, because routes read and write them themselves.
_models: dict[str, type[BaseModel]] = {}


class AuthRoute(APIRoute):
    """Admits only callers whose key has the route's role, and renews a browser's cookie. The application's state has
    the service that knows keys."""

    def __init__(self, path: str, *args: Any, **options: Any) -> None:
        super().__init__(path, *args, **options)
        assert self.openapi_extra is not None, f"{path} does not name the role it needs"
        self.role: str = self.openapi_extra[ROLE]
        self._prefix, self._suffix = path.partition("{")[0], path.rpartition("}")[2]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Compares prefix and suffix first: there are many routes, and matching a pattern is slower."""
        path: str = scope["path"]
        if not path.startswith(self._prefix) or not path.endswith(self._suffix):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            await request.app.state.service.admit(request, self.role)
            response = await handle(request)
            if request.state.cookie is not None:
                set_cookie(response, *request.state.cookie)
            return response

        return handler


class Content(Value):
    """An answer that is not JSON."""

    media_type: str
    description: str


def reference(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model by reference. A copy in each route would delay the server's start by half a second."""
    _models[model.__name__] = model
    return {"$ref": SCHEMAS + model.__name__}


#: The refusals that any route may answer with.
REFUSALS: Responses = {
    status: {"content": {PROBLEM_JSON: {"schema": reference(Problem)}}, "description": description}
    for status, description in {
        400: "the item cannot be claimed in its status, or the body cannot be read",
        401: "the key is missing or not valid",
        403: "the key or the session is not allowed to do this",
        404: "there is no such item or session, or the item is not claimed",
        408: "the body did not arrive in time",
        409: "another session holds the item, or a limit is reached",
        410: "the claim has expired",
        413: "the body is too large",
        415: "the body is not JSON",
        421: "the Host header does not name this server",
        422: "a parameter is not valid: `facts.field` names it",
        429: "the rate limit is reached: see Retry-After",
        503: "the store or the server is unavailable: see Retry-After",
    }.items()
}


def _with_nulls(data: Any, old: str | None, new: str | None) -> Any:
    if isinstance(data, dict):
        return {name: _with_nulls(value, old, new) for name, value in data.items()}
    if isinstance(data, list):
        return [_with_nulls(value, old, new) for value in data]
    return new if data == old else data


REFUSALS[409]["content"][PROBLEM_JSON]["example"] = _with_nulls(
    problem_body(409, examples.REFUSAL.code, examples.REFUSAL.message, examples.REFUSAL.facts), None, NULL
)


def describe(
    name: str,
    summary: str,
    answer: Any,
    role: str | None = VIEWER,
    *,
    body: type[BaseModel] | None = None,
    body_required: bool = True,
    body_example: Any = None,
    refusals: Mapping[int | str, dict[str, Any]] = REFUSALS,
) -> dict[str, Any]:
    """The keyword arguments for FastAPI's route decorators. `role` is None for a route that needs no key. The route
    reads its `body` itself, with `bodies`: FastAPI would parse it in the event loop."""
    extra: dict[str, Any] = {} if role is None else {ROLE: role}
    if body is not None:
        schema = reference(body)
        content: dict[str, Any] = {"schema": schema if body_required else {"anyOf": [schema, {"type": "null"}]}}
        if body_example is not None:
            content["example"] = body_example
        extra["requestBody"] = {"content": {JSON: content}, "required": body_required}
    described: dict[str, Any] = {
        "operation_id": name,
        "summary": summary,
        "responses": {200: describe_answer(answer), **refusals},
        "response_model": None,
        "openapi_extra": extra or None,
    }
    if isinstance(answer, Content):
        described["response_class"] = Response
    return described


def describe_answer(answer: Any) -> dict[str, Any]:
    if isinstance(answer, Content):
        return {"content": {answer.media_type: {}}, "description": answer.description}
    example = _with_nulls(examples.answer_example(answer), None, NULL)
    return {"model": answer, "content": {JSON: {"example": example}}}


class DocumentedApp(FastAPI):
    """Serves the OpenAPI document, with the models and the nulls that FastAPI leaves out."""

    def setup(self) -> None:
        """Making the document takes half a second, so a thread does it, on the first request."""
        lock = threading.Lock()
        made: list[bytes] = []

        def document(request: Request) -> Response:
            with lock:
                if not made:
                    made.append(json.dumps(self.openapi(), ensure_ascii=False, separators=(",", ":")).encode())
            return Response(made[0], media_type=JSON)

        self.add_route("/openapi.json", document, include_in_schema=False)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = _with_nulls(super().openapi(), NULL, None)
            models = [(model, "validation") for model in _models.values()]
            _, found = models_json_schema(models, ref_template=SCHEMAS + "{model}")  # type: ignore[arg-type]
            document["components"]["schemas"] = {**found["$defs"], **document["components"]["schemas"]}
            self.openapi_schema = document
        return self.openapi_schema
