"""The verbs that a fleet calls all day, served in front of FastAPI, whose layers take longer than such a verb.

The endpoint, the role and the path are those of FastAPI's route of the verb, and so is every check. What a fleet asks
for rarely is left to that route: whatever has a query (a verb that waits) or another method.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from dibs.server.api import responses
from dibs.server.api.endpoints import AuthRoute, respond_if_admitted
from dibs.server.service import Service
from dibs.verbs import BY_NAME

HOT = ("heartbeat", "next", "claim", "done", "progress", "release")


class HotVerbs:
    def __init__(self, app: FastAPI, service: Service) -> None:
        self.app: ASGIApp = app
        self._service = service
        hot = {(BY_NAME[name].method, BY_NAME[name].path) for name in HOT}
        # GET of the same path is another verb.
        routes = [
            one
            for one in app.routes
            if isinstance(one, AuthRoute) and any((method, one.path) in hot for method in one.methods or ())
        ]
        #: By what stands before and after the item in the path; by the whole path if there is no item in it.
        self._routes = {tuple(one.path.split("{item}")): one for one in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._find(scope)
        if found is None:
            await self.app(scope, receive, send)
            return
        route, in_path = found
        # Metrics count by the path of the route.
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            response = await respond_if_admitted(
                self._service, request, route.role, lambda: route.endpoint(request, **in_path)
            )
        except Exception as error:
            handle = next(handle for kind, handle in responses.HANDLERS.items() if isinstance(error, kind))
            response = await handle(request, error)
            if handle is responses.on_crash:
                await response(scope, receive, send)
                raise  # for the log
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> tuple[AuthRoute, dict[str, str]] | None:
        """The route of a hot request, and what its path contains."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["query_string"]:
            return None
        path: str = scope["path"]
        route = self._routes.get((path,))
        if route is not None:
            return route, {}
        before, _, verb = path.rpartition("/")
        before, _, item = before.rpartition("/")
        route = self._routes.get((f"{before}/", f"/{verb}"))
        return None if route is None or not item else (route, {"item": item})
