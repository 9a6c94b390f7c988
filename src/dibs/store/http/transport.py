"""Transports: `http://` over a bare socket, which is the fastest, and `https://` over `http.client`.

A transport returns the whole answer, or raises `NoAnswer`. `NoAnswer.sent` is whether the server may have received the
request.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod

from dibs.config import ENV_INSECURE_HTTP
from dibs.errors import Invalid
from dibs.system.keyring import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from socket import socket
    from typing import Any

    Body = bytes | Iterable[bytes] | None
    OnOpen = Callable[[socket], None]

CONNECT_SECONDS = 5.0
IDLE_MAX = 16
#: The longest label of a host name, in characters.
LABEL_MAX = 63
#: A server closes connections that were idle for five seconds; a request on one might be lost.
IDLE_SECONDS = 4.0


class NoAnswer(Exception):
    """No answer arrived. `sent`: the server may have received the request."""

    def __init__(self, why: object, *, sent: bool) -> None:
        super().__init__(str(why) or type(why).__name__)
        self.sent = sent


def check(url: str) -> None:
    """Refuse a URL with more than scheme, host and port. The message does not repeat the URL, which may contain a
    password."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    is_host = host.isascii() and host.isprintable() and " " not in host
    if port == 0 or not is_host or not all(0 < len(label) <= LABEL_MAX for label in host.rstrip(".").split(".")):
        raise Invalid("this is not the URL of a server; an example is http://127.0.0.1:8377", field="store")
    if parts.path or parts.query or parts.fragment:
        right = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        raise Invalid(f"a server's URL ends after its name and port, as in {right}", field="store")


def require_private(url: str) -> None:
    """Refuse to send a key unencrypted to another machine. A folder's dibs.toml cannot allow it, because its author is
    not the owner of the key."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    host = address(parts.hostname or "")
    is_loopback = host == "::1" or (host.startswith("127.") and set(host) <= set("0123456789."))
    if parts.scheme != "https" and not is_loopback and not os.environ.get(ENV_INSECURE_HTTP):
        raise Invalid(
            f"{parts.hostname} is another machine, and http:// would send your key unencrypted: use https://,"
            f" or on a network that you trust: export {ENV_INSECURE_HTTP}=1",
            field="store",
        )


class Reply:
    def __init__(self, status: int, kind: str, body: bytes) -> None:
        self.status, self.kind, self.body = status, kind, body


class Sender(ABC):
    """Sends requests, and keeps idle connections."""

    def __init__(self) -> None:
        self._idle: list[tuple[float, Any]] = []

    @abstractmethod
    def send(self, method: str, path: str, headers: dict[str, str], body: Body, timeout_seconds: float) -> Reply: ...

    @abstractmethod
    def stream(
        self, path: str, headers: dict[str, str], timeout_seconds: float, on_open: OnOpen | None = None
    ) -> Iterator[bytes]:
        """The lines of a long answer; the first is its status. `on_open` is given the socket, so that another
        thread can end a read that waits."""

    @abstractmethod
    def _is_open(self, connection: Any) -> bool:
        """Whether an idle connection is still open: the server sends nothing on it, so readable means closed."""

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def forget(self) -> None:
        """Drop the connections without closing them, because in a forked child they are the parent's."""
        self._idle = []

    def _pop_idle(self) -> Any:
        """An idle connection; None if there is none."""
        while self._idle:
            try:
                since, connection = self._idle.pop()
            except IndexError:
                break  # another thread took it
            if time.monotonic() - since < IDLE_SECONDS and self._is_open(connection):
                return connection
            connection.close()
        return None

    def _keep(self, connection: Any, *, reusable: bool) -> None:
        if reusable and len(self._idle) < IDLE_MAX:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.close()


def sender(url: str) -> Sender:
    check(url)
    if url.startswith("http:"):
        from dibs.store.http.plain_socket import PlainSender

        return PlainSender(url)
    from dibs.store.http.tls_socket import TlsSender

    return TlsSender(url)
