"""A process that serves boards over HTTP for tests: `python -m tests.kit.http_host`. Orders on stdin, a line each.

`{"serve": {"recipe": ...}}` opens the board of a recipe and answers with a port and an admin's key; `port` asks for
one, `hosts` names others that lead there, `sweeps` says that it sweeps by itself, `streams_per_key` how many streams a
key may have. `{"stop": PORT}` ends that server.
All of them live in this one process, since importing a web framework for each test would take most of the time.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from fastapi import APIRouter

from dibs.config import ServerSettings
from dibs.model import ADMIN
from dibs.server import app, pages
from dibs.server.api import mcp, verb_routes
from dibs.server.compat import story_011
from dibs.server.ops import health
from dibs.server.ops.address import listen
from dibs.server.ops.connection import Connection
from dibs.server.service import WAIT_SECONDS_MAX, Service, Streaming
from dibs.testing.actors import say
from dibs.testing.harness import open_recipe

Routes = Callable[[Service], APIRouter]


class Seat:
    """Stands for the service of one server at a time, in routes that the next server uses again: FastAPI takes three
    quarters of the start of a server to make them."""

    def __init__(self) -> None:
        self.service: Service | None = None
        self.routers: dict[Routes, APIRouter] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)


#: Those of servers that have ended.
_free: list[Seat] = []
_taken: dict[Service, Seat] = {}


def keep_routes() -> None:
    """Those of the modules that ask their service for all that they need, with each request."""
    for part in (verb_routes, mcp, health, story_011, pages):
        part.routes = _kept(part.routes)  # type: ignore[attr-defined]


def _kept(routes: Routes) -> Routes:
    def kept(service: Service) -> APIRouter:
        seat = _taken[service]
        if routes not in seat.routers:
            seat.routers[routes] = routes(cast("Service", seat))
        return seat.routers[routes]

    return kept


class Served:
    """One server in a thread."""

    def __init__(
        self,
        recipe: dict[str, Any],
        port: int = 0,
        hosts: list[str] | None = None,
        wait_seconds_max: float = WAIT_SECONDS_MAX,
        sweeps: bool = False,
        streams_per_key: int | None = None,
    ) -> None:
        board = open_recipe(recipe)
        self.key = board.create_key(ADMIN, agent="tester")[1]
        # Most tests set the clock, and say themselves when something is swept.
        streaming = Streaming() if streams_per_key is None else Streaming(subscribers_per_key=streams_per_key)
        self._service = Service(
            board.store, board.settings, sweeps=sweeps, wait_seconds_max=wait_seconds_max, streaming=streaming
        )
        self._seat = _taken[self._service] = _free.pop() if _free else Seat()
        self._seat.service = self._service
        settings = ServerSettings(port=port)
        self._socket: socket.socket = listen(settings)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app.make(self._service, settings, self.port, None, hosts or ()),
            http=Connection,
            log_config=None,
            access_log=False,
            # As in `make_server`: the application is not wrapped.
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=5,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._service.stop()
        self._server.should_exit = True
        self._thread.join(10)
        if not self._thread.is_alive():
            _free.append(_taken.pop(self._service))


def main() -> None:
    keep_routes()
    served: dict[int, Served] = {}
    say({"ready": os.getpid()})
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "serve" in order:
                new = Served(**order["serve"])
                served[new.port] = new
                say({"port": new.port, "key": new.key})
            else:
                served.pop(order["stop"]).stop()
                say({"stopped": order["stop"]})
        except Exception:
            say({"crash": traceback.format_exc()})


if __name__ == "__main__":
    main()
