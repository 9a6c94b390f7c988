"""The application: the routes of one service, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TextIO

from fastapi import FastAPI
from starlette.types import ASGIApp

from dibs.config import ServerSettings
from dibs.github.intake import Intake
from dibs.server import pages
from dibs.server.api import board_routes, github, mcp, responses, verb_routes
from dibs.server.api.endpoints import DocumentedApp
from dibs.server.api.hot_verbs import HotVerbs
from dibs.server.auth import routes as auth_routes
from dibs.server.auth.guard import Guard
from dibs.server.compat import session_task, story_011
from dibs.server.ops import address, health
from dibs.server.ops.certificates import Certificate
from dibs.server.ops.metrics import Metrics
from dibs.server.service import Service
from dibs.server.streams import sse

DESCRIPTION = """A board of work that agents and people share: each item is claimed by one session at a time, and the
items of a crashed session become claimable again.

Every verb is one request. A refusal is `application/problem+json` with a stable `code` and its `facts`. With an
`Idempotency-Key`, repeating a request returns the first answer and changes nothing more."""


def make(
    service: Service,
    settings: ServerSettings,
    port: int,
    log: TextIO | None,
    more_hosts: Sequence[str] = (),
    intake: Intake | None = None,
    certificate: Certificate | None = None,
) -> ASGIApp:
    """The whole application, for an ASGI server. `more_hosts`: accepted in the Host header beside the server's own.
    With an `intake` that has secrets, it accepts webhooks of GitHub."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.close()

    app = DocumentedApp(
        title="dibs",
        version=version("calldibs"),
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    for kind, handle in responses.HANDLERS.items():
        app.add_exception_handler(kind, handle)
    app.state.service = service
    metrics = Metrics(service, certificate)
    parts = (verb_routes, board_routes, sse, mcp, health, session_task, story_011, pages)
    routers = [part.routes(service) for part in parts]
    routers += [auth_routes.key_routes(service), metrics.routes()]
    if intake is not None and intake.secrets:
        routers.append(github.routes(service, intake))
    secure_hosts = frozenset(address.secure_hosts(settings, port))
    routers.append(auth_routes.login_routes(service, secure_hosts=secure_hosts, pages=address.pages_of(settings)))
    for router in routers:
        # `include_router` would match each request against all routes twice.
        app.router.routes.extend(router.routes)
    hosts, origins = address.hosts_and_origins(settings, port)
    return Guard(
        app,
        take=HotVerbs(app.routes, service).take,
        hosts=frozenset([*hosts, *more_hosts]),
        origins=frozenset(origins),
        log=log,
        log_json=settings.log_json,
        on_request=metrics.observe_request,
        archive_paths=board_routes.ARCHIVE_PATHS,
    )
