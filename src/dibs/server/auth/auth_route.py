"""Routes that let in only callers whose key is good and whose role will do, before anything is read of what they say.

A body is up to 8 MB, reading it takes as long as its sender likes, and understanding it takes as long as its sender has
contrived: that is not for everybody who finds the port, nor for those who could not use the route anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Match

from dibs.server.auth.guard import Scope
from dibs.server.service import Service

#: How the OpenAPI document says which role an operation needs. Those without it are open to all.
ROLE = "x-dibs-role"
SCHEMAS = "#/components/schemas/"


class Keyed(APIRoute):
    service: ClassVar[Service]

    def __init__(self, path: str, *given: Any, **named: Any) -> None:
        super().__init__(path, *given, **named)
        assert self.openapi_extra is not None, f"{path} does not say which role it needs"
        self.role: str = self.openapi_extra[ROLE]
        self._begins, self._ends = path.partition("{")[0], path.rpartition("}")[2]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """There are many routes, and a pattern is tried only on what begins and ends as it does."""
        path: str = scope["path"]
        if not path.startswith(self._begins) or not path.endswith(self._ends):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            await self.service.admit(request, self.role)
            return await handle(request)

        return handler


def keyed(by: Service) -> type[Keyed]:
    """The kind of route whose callers this service knows."""

    class KeyedRoute(Keyed):
        service = by

    return KeyedRoute


def needs(role: str) -> dict[str, Any]:
    """What a route of this role says of itself."""
    return {"openapi_extra": {ROLE: role}}


def needs_body(role: str, model: type[BaseModel], *, required: bool = True, example: Any = None) -> dict[str, Any]:
    """The same of a route with a body, which it reads itself (see `bodies`): the framework would do so in the event
    loop."""
    schema: dict[str, Any] = {"$ref": SCHEMAS + model.__name__}
    content: dict[str, Any] = {"schema": schema if required else {"anyOf": [schema, {"type": "null"}]}}
    if example is not None:
        content["example"] = example
    BODIES[model.__name__] = model
    described = {"content": {"application/json": content}, "required": required}
    return {"openapi_extra": {ROLE: role, "requestBody": described}}


#: The models of all bodies, by their names.
BODIES: dict[str, type[BaseModel]] = {}
