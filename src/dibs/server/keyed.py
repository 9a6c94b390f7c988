"""Routes that read nothing of what is said before they know that the caller has a key that is good.

A body is up to 8 MB, and reading it takes as long as its sender likes: that is not for everybody who finds the port.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from dibs.server.guard import READS
from dibs.server.service import Service


class Keyed(APIRoute):
    service: ClassVar[Service]

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
