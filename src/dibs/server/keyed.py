"""Routes that read nothing of what is said before they know that the caller has a key that is good.

A body is up to 8 MB, and reading it takes as long as its sender likes: that is not for everybody who finds the port.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.routing import Match

from dibs.server.guard import READS, Scope
from dibs.server.service import Service


class Keyed(APIRoute):
    service: ClassVar[Service]

    def __init__(self, path: str, *given: Any, **named: Any) -> None:
        super().__init__(path, *given, **named)
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
            if request.method not in READS:
                await self.service.meet(request)
            return await handle(request)

        return handler


def keyed(by: Service) -> type[Keyed]:
    """The kind of route whose callers this service knows."""

    class KeyedRoute(Keyed):
        service = by

    return KeyedRoute
