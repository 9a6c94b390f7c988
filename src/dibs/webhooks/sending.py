"""One POST to a receiver: a checked address, no redirect, no proxy, a bounded answer, one deadline for all of it."""

from __future__ import annotations

import io
import socket
import ssl
from contextlib import suppress
from functools import cache
from http.client import HTTPException, HTTPResponse
from time import monotonic
from urllib.parse import urlsplit

from dibs.value import Value
from dibs.webhooks import addresses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dibs.webhooks.addresses import Resolve

#: For the whole exchange: resolving, connecting, TLS, sending, and the answer.
SEND_SECONDS = 15.0
#: How much is received, of an answer with its headers; how much of the answer is read, and how much of it is shown.
RECEIVED_BYTES_MAX = 65536
ANSWER_BYTES_MAX = 4096
ANSWER_SHOWN_MAX = 200
GONE = 410


class Outcome(Value):
    """`failure` is None if the receiver has accepted the message. `answer` is a short line for people."""

    answer: str
    failure: str | None = None
    gone: bool = False


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    allow_private: bool,
    resolve: Resolve = addresses.resolve,
    seconds: float = SEND_SECONDS,
) -> Outcome:
    parts = urlsplit(url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    deadline = monotonic() + seconds
    try:
        found = addresses.checked(host, port, allow_private=allow_private, seconds=seconds, resolve=resolve)
        with _connect(found, deadline) as plain, _secured(plain, host if is_tls else None, deadline) as connection:
            connection.settimeout(_left(deadline))
            connection.sendall(_head(target, parts.netloc, headers, len(body)) + body)
            return _read(connection, deadline)
    except TimeoutError:
        return _failed(f"no answer within {seconds:g}s")
    except ssl.SSLError as error:
        return _failed(f"TLS failed: {getattr(error, 'verify_message', '') or error.reason or error}")
    except (addresses.Refused, HTTPException, OSError, ValueError) as error:
        return _failed(str(error) or type(error).__name__)


def _connect(found: list[tuple[Any, ...]], deadline: float) -> socket.socket:
    """A connection to the first address that answers. The address is a number, so nothing is resolved again."""
    failure: OSError = OSError("the host has no address")
    for family, kind, protocol, _, address in found:
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(_left(deadline))
            made.connect(address)
            return made
        except OSError as error:
            made.close()
            failure = error
    raise failure


def _secured(plain: socket.socket, host: str | None, deadline: float) -> socket.socket:
    """The connection in TLS, checked against the name of the URL; without a host, the connection as it is."""
    if host is None:
        return plain
    plain.settimeout(_left(deadline))
    return _tls().wrap_socket(plain, server_hostname=host)


@cache
def _tls() -> ssl.SSLContext:
    """Made once: to read the certificates of the system takes longer than most messages, and no other thread runs."""
    return ssl.create_default_context()


def _head(target: str, host: str, headers: Mapping[str, str], length: int) -> bytes:
    fixed = {
        "Host": host,
        "User-Agent": "dibs",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        "Connection": "close",
    }
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in {**fixed, **headers}.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _read(connection: socket.socket, deadline: float) -> Outcome:
    response = HTTPResponse(_Bounded(connection, deadline))  # type: ignore[arg-type]  # it asks only for a file
    response.begin()
    line = f"{response.status} {response.reason}".strip()
    if 200 <= response.status < 300:
        return Outcome(answer=_shown(line))
    if 300 <= response.status < 400:
        return _failed(f"{line}: redirects are not followed")
    text = b""
    with suppress(OSError, HTTPException, ValueError):
        text = response.read(ANSWER_BYTES_MAX)
    detail = text.decode("utf-8", "replace").strip().partition("\n")[0]
    return _failed(f"{line}: {detail}" if detail else line, gone=response.status == GONE)


class _Bounded:
    """What `HTTPResponse` reads from: every read ends at the deadline, however slowly the bytes come, and the answer
    ends at `RECEIVED_BYTES_MAX`, whatever length it claims."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_Bytes(self._connection, self._deadline))


class _Bytes(io.RawIOBase):
    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline
        self._allowed = RECEIVED_BYTES_MAX

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(_left(self._deadline))
        received = self._connection.recv_into(buffer, min(len(buffer), self._allowed)) if self._allowed else 0
        self._allowed -= received
        return received


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _failed(failure: str, *, gone: bool = False) -> Outcome:
    return Outcome(answer=_shown(failure), failure=_shown(failure), gone=gone)


def _shown(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain if len(plain) <= ANSWER_SHOWN_MAX else plain[: ANSWER_SHOWN_MAX - 3] + "..."
