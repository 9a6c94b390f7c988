"""Running a server: its socket, its processes, its end.

A stop is graceful: nobody new is let in, verbs that are being done are answered, those who wait are sent home with a
word on when to come back, and streams end with a hint to resume.
"""

from __future__ import annotations

import socket
from typing import Any, TextIO

import uvicorn

from dibs.config import Settings
from dibs.errors import Invalid
from dibs.server import app as application
from dibs.server.connections import Connection
from dibs.server.service import Service
from dibs.store.open import open_store
from dibs.value import Value

LOOPBACK = ("127.0.0.1", "::1", "localhost")
BACKLOG = 2048
#: After this long, what is still going on is cut off.
STOP_SECONDS = 20
PORT = 8377


class Place(Value):
    """Where a server listens, and by which names it goes."""

    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    certificate: str | None = None
    private_key: str | None = None
    insecure: bool = False

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"


def listen(place: Place) -> socket.socket:
    """A bound socket; beyond this machine only with TLS, or if it is said aloud."""
    if place.host not in LOOPBACK and not place.certificate and not place.insecure:
        raise Invalid(
            f"{place.host} can be reached by others: give --tls-cert and --tls-key, or say --insecure if something in"
            " front encrypts",
            field="host",
        )
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((place.host, place.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Invalid(f"cannot listen at {place.host}:{place.port}: {error.strerror}", field="port") from error
    return listener


def addresses(place: Place, port: int) -> tuple[list[str], list[str]]:
    """The exact hosts and origins that are this server's own."""
    names = [*place.names, place.host]
    if place.host in LOOPBACK:
        names += LOOPBACK
    hosts = []
    for name in dict.fromkeys(names):
        shown = f"[{name}]" if ":" in name and not name.startswith("[") else name
        hosts.append(f"{shown}:{port}".lower())
        if port == (443 if place.certificate else 80):
            hosts.append(shown.lower())
    return hosts, [f"{place.scheme}://{host}" for host in hosts]


def url_of(place: Place, port: int) -> str:
    host = "127.0.0.1" if place.host in LOOPBACK else (place.names or (place.host,))[0]
    return f"{place.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


class Server(uvicorn.Server):
    """One that tells its streams and its waiting callers when it is asked to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._service.stop()
        super().handle_exit(sig, frame)


def serve(
    url: str, settings: Settings, place: Place, listener: socket.socket, log: TextIO | None, log_json: bool
) -> None:
    """Serve a board at a socket until told to stop."""
    service = Service(open_store(url, settings), settings)
    port = listener.getsockname()[1]
    hosts, origins = addresses(place, port)
    options = application.Options(
        hosts=hosts, origins=origins, secure=place.scheme == "https", log=log, log_json=log_json
    )
    config = uvicorn.Config(
        application.make(service, options),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="on",
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.private_key,
        proxy_headers=False,
        ws="none",
        http=Connection,
    )
    Server(config, service).run(sockets=[listener])
