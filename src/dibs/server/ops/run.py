"""Running a server, to its end.

A stop is graceful: nobody new is let in, verbs that are being done are answered, those who wait are sent home with a
word on when to come back, and streams end with a hint to resume.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from typing import Any, TextIO

import uvicorn

from dibs.board import Board
from dibs.config import ServerSettings
from dibs.server import STOP_SECONDS
from dibs.server import app as application
from dibs.server.ops import log_lines, open_files
from dibs.server.ops.address import BACKLOG, addresses, pages_of, place_of, secure_hosts
from dibs.server.ops.connection import within
from dibs.server.service import Service, Streaming

KEEP_ALIVE_SECONDS = 5
#: asyncio accepts as many as its backlog before it looks at any of them, and all would be open files.
ACCEPTED_AT_ONCE = 8


class Server(uvicorn.Server):
    """One that tells its streams and its waiting callers when it is asked to stop, and then ends as it should."""

    def __init__(self, config: uvicorn.Config, service: Service, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._tell_started = service, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # asyncio has made the system's own queue as short as what it accepts at once
        self._tell_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Not noted for later: uvicorn would raise the signal again, and a stop that was asked for ends with 0."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def server_of(
    board: Board,
    settings: ServerSettings,
    listener: socket.socket,
    log: TextIO | None,
    started: Callable[[], None] = lambda: None,
) -> Server:
    """A server for a board, ready to be run at this socket. It closes the board at its end."""
    place, port = place_of(settings), listener.getsockname()[1]
    hosts, origins = addresses(place, port)
    room = open_files.allow_most()
    streaming = Streaming(
        subscribers_max=room.streams_max(settings.subscribers_max),
        subscribers_per_key=room.streams_per_key(settings.subscribers_per_key, of=settings.subscribers_max),
    )
    service = Service(board.store, board.settings, streaming=streaming)
    options = application.Options(
        hosts=hosts,
        origins=origins,
        secure_hosts=secure_hosts(place, port),
        pages=pages_of(place),
        log=log,
        log_json=settings.log_json,
    )
    log_lines.install(settings.log_json)
    config = uvicorn.Config(
        application.make(service, options),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="on",
        http=within(room),
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.private_key,
        proxy_headers=False,
        ws="none",
    )
    return Server(config, service, started)
