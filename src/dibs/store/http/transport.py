"""Requests as they go out. Either the whole answer comes back, or `Lost` says whether the request may have been heard.

Which way they go: in the clear over a bare socket, which is the fastest; encrypted over a library, and a command that
lives for one verb has no time to load a large one.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from dibs.config import ENV_INSECURE_HTTP
from dibs.errors import Invalid
from dibs.files.keyring import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Body = bytes | Iterable[bytes] | None

CONNECT_SECONDS = 5.0
IDLE_MAX = 16
#: Of a part of a host's name; a longer one cannot even be looked up.
LABEL_MAX = 63
#: A server closes what was quiet for five seconds; a request on such a connection might be lost.
IDLE_SECONDS = 4.0


class Lost(Exception):
    """No answer came. `sent`: it may have been heard all the same."""

    def __init__(self, why: object, *, sent: bool) -> None:
        super().__init__(str(why) or type(why).__name__)
        self.sent = sent


def check(url: str) -> None:
    """It names a server, and nothing but that. Not repeated in a refusal: somebody may have put a password in it."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    is_host = host.isascii() and host.isprintable() and " " not in host
    if port == 0 or not is_host or not all(0 < len(label) <= LABEL_MAX for label in host.rstrip(".").split(".")):
        raise Invalid("this is no URL of a server; http://127.0.0.1:8377 is right", field="store")
    if parts.path or parts.query or parts.fragment:
        right = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        raise Invalid(f"a server's URL ends with its name and port: {right} is right", field="store")


def require_private(url: str) -> None:
    """Refuse to send a key where others can read it. Not for a folder's dibs.toml to allow: whoever wrote that is not
    whose key it is."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    host = address(parts.hostname or "")
    is_loopback = host == "::1" or (host.startswith("127.") and set(host) <= set("0123456789."))
    if parts.scheme != "https" and not is_loopback and not os.environ.get(ENV_INSECURE_HTTP):
        raise Invalid(
            f"{parts.hostname} is another machine, and over http:// everybody on the way can read your key: use https://,"
            f" or if the network is your own: export {ENV_INSECURE_HTTP}=1",
            field="store",
        )


class Reply:
    def __init__(self, status: int, kind: str, body: bytes) -> None:
        self.status, self.kind, self.body = status, kind, body


class Sender(ABC):
    @abstractmethod
    def send(self, method: str, path: str, headers: dict[str, str], body: Body, timeout_seconds: float) -> Reply: ...

    @abstractmethod
    def stream(self, path: str, headers: dict[str, str], timeout_seconds: float) -> Iterator[bytes]:
        """The lines of a long answer; the first is its status."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def forget(self) -> None:
        """After a fork: what is open is the parent's."""


def sender(url: str, *, lean: bool) -> Sender:
    check(url)
    if url.startswith("http:"):
        from dibs.store.http.plain_socket import PlainSender

        return PlainSender(url)
    from dibs.store.http.tls_transports import LibrarySender, PooledSender

    if not lean:
        try:
            return PooledSender(url)
        except ImportError:
            pass  # the standard library does as well, with less behind it
    return LibrarySender(url)
