"""Runs a server until a signal stops it.

The stop is graceful: the server accepts no new connections, answers the verbs that run, ends waiting requests with the
advice to repeat them, and ends streams with the cursor to resume at.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import uvicorn

from dibs.board import Board
from dibs.config import ServerSettings
from dibs.github.intake import Intake
from dibs.server import STOP_SECONDS, app
from dibs.server.ops import hangups, logs, open_files
from dibs.server.ops.accepting import Acceptor, Room
from dibs.server.ops.certificates import LOOK_SECONDS, Certificate
from dibs.server.ops.connection import limited_by
from dibs.server.ops.idle import IdleStop
from dibs.server.service import Service, Streaming
from dibs.server.shares import SHARED_SECONDS

KEEP_ALIVE_SECONDS = 5
#: How long a thread that computes keeps another waiting while several keys use the server. A short verb waits that long
#: at each of its statements, of which SQLite lets the interpreter go: with Python's own 5 ms, for a tenth of a second
#: beside a large body. For one key alone, the changes of threads would cost a tenth of the server's time.
SHARED_SWITCH_SECONDS = 0.0001
#: After so many new objects the collector looks at them, for a few milliseconds.
NEW_OBJECTS_MAX = 10_000


class Server(uvicorn.Server):
    """When a signal stops it, ends streams and waiting requests, and exits with 0."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        on_started: Callable[[], None],
        room: Room,
        certificate: Certificate | None = None,
    ) -> None:
        super().__init__(config)
        self._service, self._room, self._on_started = service, room, on_started
        self._certificate = certificate
        self._acceptors: list[Acceptor] = []
        self._switch_seconds = sys.getswitchinterval()
        #: The next look whether one key uses the server alone again.
        self._switch_look: asyncio.TimerHandle | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # asyncio would count a connection only after its TLS handshake
        for listener in sockets or ():
            self._acceptors.append(Acceptor(listener, self._room, self._make_connection, self.config.ssl))
            self._acceptors[-1].start()
        # What was imported stays: the collector would look at it again and again, in a view for a third of its time.
        gc.freeze()
        # A command collects rarely, since it ends soon. Here, one such collection would stop all requests for 25 ms.
        gc.set_threshold(NEW_OBJECTS_MAX)
        self._service.users.on_several = self._switch_often
        if self._certificate is not None and self.config.ssl is not None:
            self._certificate.use_in(self.config.ssl)
            self._certificate.tell_if_expired()
            self._look_at_certificate(self._certificate)
        hangups.handle(self._on_hangup)
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stop()
        for acceptor in self._acceptors:
            acceptor.close()
        await super().shutdown(sockets)

    def _switch_often(self) -> None:
        sys.setswitchinterval(SHARED_SWITCH_SECONDS)
        if self._switch_look is None:
            self._switch_look = asyncio.get_running_loop().call_later(SHARED_SECONDS, self._switch_seldom_if_alone)

    def _switch_seldom_if_alone(self) -> None:
        self._switch_look = None
        if self._service.users.are_several(time.monotonic()):
            self._switch_often()
        else:
            sys.setswitchinterval(self._switch_seconds)

    def _on_hangup(self) -> None:
        if hangups.ends_terminal():
            self.handle_exit(signal.SIGTERM, None)
        elif self._certificate is not None:
            self._certificate.reload()

    def _look_at_certificate(self, certificate: Certificate) -> None:
        certificate.reload_if_changed()
        asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_at_certificate, certificate)

    def _make_connection(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

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
    hangups.ignore_until_started()
    limit = open_files.raise_limit()
    streaming = Streaming(
        subscribers_max=limit.streams_max(settings.subscribers_max),
        subscribers_per_key=limit.streams_per_key(settings.subscribers_per_key, of=settings.subscribers_max),
    )
    mark = "" if background is None else background.browser_mark
    service = Service(board.store, board.settings, streaming=streaming, browser_mark=mark)
    logs.install(settings.log_json)
    certificate = None
    if settings.tls_cert is not None and settings.tls_key is not None:
        certificate = Certificate(settings.tls_cert, settings.tls_key)
    port = listener.getsockname()[1]
    application = app.make(service, settings, port, log, intake=intake, certificate=certificate)
    if background is not None:
        application = IdleStop(
            application, background.idle_seconds, lambda: server.handle_exit(signal.SIGTERM, None), background.is_gone
        )
    room = Room(limit)
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="on",
        http=limited_by(room),
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        proxy_headers=False,
        ws="none",
    )
    server = Server(config, service, on_started, room, certificate)
    return server
