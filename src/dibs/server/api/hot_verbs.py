"""The verbs that a fleet calls all day, served in front of FastAPI, whose layers take longer than such a verb.

The endpoint, the role and the path are those of FastAPI's route of the verb, and so is every check. What a fleet asks
for rarely is left to that route: whatever has a query (a verb that waits) or another method.

Most requests arrive as a whole, with a key that is known: they need no task either. Whatever has to wait or is refused
before the verb is left to a task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from dibs.errors import DibsError
from dibs.server.api import bodies, responses, verb_routes
from dibs.server.api.endpoints import AuthRoute, respond_if_admitted
from dibs.server.api.verb_routes import HOT, VerbCall
from dibs.server.ops.connection import TakesWhole
from dibs.server.service import Service
from dibs.verbs import BY_NAME, Verb


class HotRoute(NamedTuple):
    route: AuthRoute
    verb: Verb
    model: type[BaseModel] | None


class HotVerbs(TakesWhole):
    def __init__(self, app: FastAPI, service: Service) -> None:
        self.app: ASGIApp = app
        self._service = service
        hot = {(BY_NAME[name].method, BY_NAME[name].path): BY_NAME[name] for name in HOT}
        #: By what stands before and after the item in the path; by the whole path if there is no item in it.
        self._routes: dict[tuple[str, ...], HotRoute] = {}
        for route in app.routes:
            if not isinstance(route, AuthRoute):
                continue
            for method in route.methods or ():
                # GET of the same path is another verb.
                verb = hot.get((method, route.path))
                if verb is not None:
                    self._routes[tuple(route.path.split("{item}"))] = HotRoute(route, verb, verb_routes.model_of(verb))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._find(scope)
        if found is None:
            await self.app(scope, receive, send)
            return
        (route, _, _), in_path = found
        # Metrics count by the path of the route.
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            response = await respond_if_admitted(
                self._service, request, route.role, lambda: route.endpoint(request, **in_path)
            )
        except Exception as error:
            self._service.note(error)
            handle = next(handle for kind, handle in responses.HANDLERS.items() if isinstance(error, kind))
            response = await handle(request, error)
            if handle is responses.on_crash:
                await response(scope, receive, send)
                raise  # for the log
        await response(scope, receive, send)

    def take(self, scope: Scope, body: bytes, respond: Callable[[Response], None]) -> bool:
        found = self._find(scope)
        if found is None or len(body) > bodies.SMALL_BYTES_MAX:
            return False
        (route, verb, model), in_path = found
        request = Request(scope)
        try:
            if not self._service.is_admitted(request, route.role):
                return False
            call = VerbCall(self._service, verb, request, in_path, bodies.parse_small(body, model))
        except DibsError:
            return False
        scope["route"] = route

        def end(response: Response, error: Exception | None) -> None:
            if isinstance(error, DibsError):
                self._service.note(error)
                response = responses.refused(error)
            elif error is not None:
                logging.error("a verb failed", exc_info=error)
                response = responses.crashed()
            respond(response)

        self._service.start_hot(request.state.caller, call.find, call.respond, end)
        return True

    def _find(self, scope: Scope) -> tuple[HotRoute, dict[str, str]] | None:
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
