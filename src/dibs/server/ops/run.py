"""Runs a server until a signal stops it.

The stop is graceful: the server accepts no new connections, answers the verbs that run, ends waiting requests with the
advice to repeat them, and ends streams with the cursor to resume at.
"""

from __future__ import annotations

import gc
import signal
import socket
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import uvicorn

from dibs.board import Board
from dibs.config import ServerSettings
from dibs.github.intake import Intake
from dibs.server import STOP_SECONDS, app
from dibs.server.ops import logs, open_files
from dibs.server.ops.address import BACKLOG
from dibs.server.ops.connection import limited_by
from dibs.server.ops.idle import IdleStop
from dibs.server.service import Service, Streaming

KEEP_ALIVE_SECONDS = 5
#: After so many new objects the collector looks at them, for a few milliseconds.
NEW_OBJECTS_MAX = 10_000
#: asyncio accepts up to its backlog of connections before it handles any of them, and each is an open file.
ACCEPTED_AT_ONCE = 8


class Server(uvicorn.Server):
    """When a signal stops it, ends streams and waiting requests, and exits with 0."""

    def __init__(self, config: uvicorn.Config, service: Service, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._on_started = service, on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # asyncio has set the kernel's queue to `ACCEPTED_AT_ONCE`
        # What was imported stays: the collector would look at it again and again, in a view for a third of its time.
        gc.freeze()
        # A command collects rarely, since it ends soon. Here, one such collection would stop all requests for 25 ms.
        gc.set_threshold(NEW_OBJECTS_MAX)
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Does not record the signal: uvicorn would raise it again at the end, and the exit code would not be 0."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


class Background(NamedTuple):
    """A server that nobody started by hand: it stops when it was not used for so long or its board is gone, and signs
    out its browsers, whose keys have this mark."""

    idle_seconds: float
    browser_mark: str
    is_gone: Callable[[], bool]


def make_server(
    board: Board,
    settings: ServerSettings,
    listener: socket.socket,
    log: TextIO | None,
    on_started: Callable[[], None] = lambda: None,
    background: Background | None = None,
    intake: Intake | None = None,
) -> Server:
    """A server of a board, to be run with this socket. It closes the board at its end. `intake`: see `app.make`."""
    limit = open_files.raise_limit()
    streaming = Streaming(
        subscribers_max=limit.streams_max(settings.subscribers_max),
        subscribers_per_key=limit.streams_per_key(settings.subscribers_per_key, of=settings.subscribers_max),
    )
    mark = "" if background is None else background.browser_mark
    service = Service(board.store, board.settings, streaming=streaming, browser_mark=mark)
    logs.install(settings.log_json)
    application = app.make(service, settings, listener.getsockname()[1], log, intake=intake)
    if background is not None:
        application = IdleStop(
            application, background.idle_seconds, lambda: server.handle_exit(signal.SIGTERM, None), background.is_gone
        )
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="on",
        http=limited_by(limit),
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        proxy_headers=False,
        ws="none",
    )
    server = Server(config, service, on_started)
    return server
