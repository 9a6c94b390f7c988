"""The application: routes over one service, behind the guard."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TextIO

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from dibs.errors import DibsError
from dibs.server.api import archive_routes, problems, routes, watch_routes
from dibs.server.api.openapi import Documented
from dibs.server.auth import key_routes, login
from dibs.server.auth.guard import App, Guard
from dibs.server.compat import session_task, story_011
from dibs.server.ops import health, metrics
from dibs.server.service import Service
from dibs.server.streams import stream_routes
from dibs.value import Value

DESCRIPTION = """A board of work that agents and people share: no item is done twice, a crashed one's work comes back.

Every verb is one request. A refusal is `application/problem+json` with a stable `code` and its `facts`. With an
`Idempotency-Key`, a verb can be asked again after a lost answer, and is answered and not done again."""


class Options(Value):
    """How a server presents itself: the exact hosts and origins that are its own, and where its log goes."""

    hosts: Sequence[str]
    origins: Sequence[str]
    #: Those that a browser reaches encrypted: their cookies never travel in the clear.
    secure_hosts: Sequence[str] = ()
    #: Where its pages are, if they have a host name of their own.
    pages: str | None = None
    log: TextIO | None = sys.stderr
    log_json: bool = False


def make(service: Service, options: Options) -> App:
    """The whole application, to be run by an ASGI server."""

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.close()

    app = Documented(
        title="dibs",
        version=version("calldibs"),
        description=DESCRIPTION,
        lifespan=running,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        exception_handlers={
            DibsError: problems.refused,
            RequestValidationError: problems.invalid,
            HTTPException: problems.no_such_route,
            Exception: problems.crashed,
        },
    )
    figures = metrics.Figures(service)
    routers = [routes.native(service)]
    routers += [
        part.routes(service)
        for part in (key_routes, archive_routes, watch_routes, stream_routes, health, session_task, story_011)
    ]
    routers.append(figures.routes())
    routers.append(login.routes(service, secure_hosts=frozenset(options.secure_hosts), pages=options.pages))
    for router in routers:
        # Not included: each request would be held against all routes twice.
        app.router.routes.extend(router.routes)
    return Guard(
        app,
        hosts=frozenset(options.hosts),
        origins=frozenset(options.origins),
        log=options.log,
        log_json=options.log_json,
        measured=figures.measured,
        large=archive_routes.LARGE,
    )
