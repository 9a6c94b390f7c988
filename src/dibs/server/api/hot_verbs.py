"""The verbs that a fleet calls all day, called by the parser of HTTP: a task and FastAPI's layers take longer.

The role and the path are those of FastAPI's route of the verb, and so is every check. All but the usual is left to that
route: a request that did not arrive as a whole, has a query (a verb that waits) or a large body, comes with a key that
is not known yet, or is refused before its verb.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.routing import BaseRoute
from starlette.types import Scope

from dibs.errors import DibsError
from dibs.server.api import bodies, responses, verb_routes
from dibs.server.api.endpoints import AuthRoute
from dibs.server.api.verb_routes import HOT, VerbCall
from dibs.server.service import Service
from dibs.verbs import BY_NAME, Verb


class HotRoute(NamedTuple):
    route: AuthRoute
    verb: Verb
    model: type[BaseModel] | None


class HotVerbs:
    def __init__(self, routes: Iterable[BaseRoute], service: Service) -> None:
        self._service = service
        hot = {(BY_NAME[name].method, BY_NAME[name].path): BY_NAME[name] for name in HOT}
        #: By what stands before and after the item in the path; by the whole path if there is no item in it.
        self._routes: dict[tuple[str, ...], HotRoute] = {}
        for route in routes:
            if not isinstance(route, AuthRoute):
                continue
            for method in route.methods or ():
                # GET of the same path is another verb.
                verb = hot.get((method, route.path))
                if verb is not None:
                    self._routes[tuple(route.path.split("{item}"))] = HotRoute(route, verb, verb_routes.model_of(verb))

    def take(self, scope: Scope, body: bytes, respond: Callable[[Response], None]) -> bool:
        """See `TakesWhole`."""
        found = self._find(scope)
        if found is None or len(body) > bodies.SMALL_BYTES_MAX:
            return False
        (route, verb, model), in_path = found
        request = Request(scope)
        try:
            if not self._service.is_admitted(request, route.role):
                return False
            call = VerbCall(self._service, verb, request, in_path, bodies.small_arguments(body, model))
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
