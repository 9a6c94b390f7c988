"""Encrypted requests, over libraries: `http.client`, which is always there, and httpx2, for programs that stay.

Both keep connections open.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from urllib.parse import urlsplit

from dibs.errors import StoreUnusable
from dibs.store.http.transport import CONNECT_SECONDS, IDLE_MAX, IDLE_SECONDS, Lost, Reply, Sender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from dibs.store.http.transport import Body


class LibrarySender(Sender):
    """Over `http.client`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []

    def send(self, method: str, path: str, headers: dict[str, str], body: Body, timeout_seconds: float) -> Reply:
        connection = self._connected(timeout_seconds)
        try:
            self._ask(connection, method, path, headers, body)
            answer = connection.getresponse()
            reply = Reply(answer.status, answer.headers.get_content_type(), answer.read())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Lost(error, sent=True) from error
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._rest(connection)
        return reply

    def stream(self, path: str, headers: dict[str, str], timeout_seconds: float) -> Iterator[bytes]:
        """The lines of a long answer; the first is its status."""
        connection = self._connected(timeout_seconds)
        try:
            self._ask(connection, "GET", path, headers, None)
            answer = connection.getresponse()
            yield str(answer.status).encode()
            yield from answer
        except (OSError, http.client.HTTPException) as error:
            raise Lost(error, sent=True) from error
        finally:
            connection.close()

    def close(self) -> None:
        with self._lock:
            found, self._idle = self._idle, []
        for _, connection in found:
            connection.close()

    def forget(self) -> None:
        """After a fork: what is open is the parent's."""
        self._lock = threading.Lock()
        self._idle = []

    def _connected(self, timeout_seconds: float) -> http.client.HTTPConnection:
        with self._lock:
            while self._idle:
                since, connection = self._idle.pop()
                if time.monotonic() - since < IDLE_SECONDS and connection.sock is not None:
                    connection.sock.settimeout(timeout_seconds)
                    return connection
                connection.close()
        try:
            connection = self._made()
            connection.connect()
        except OSError as error:
            raise _unconnected(error) from error
        connection.sock.settimeout(timeout_seconds)
        return connection

    def _made(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_SECONDS)
        return http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT_SECONDS, context=_trusting())

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str], body: Body
    ) -> None:
        chunked = body is not None and not isinstance(body, bytes)
        if chunked:
            headers = {**headers, "Transfer-Encoding": "chunked"}
        connection.request(method, path, body=body, headers=headers, encode_chunked=chunked)

    def _rest(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()


class PooledSender(LibrarySender):
    """Over httpx2."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        import httpx2

        self._http: Any = httpx2
        self._url = url
        self._client: Any = self._opened()

    def send(self, method: str, path: str, headers: dict[str, str], body: Body, timeout_seconds: float) -> Reply:
        timeout = self._http.Timeout(timeout_seconds, connect=CONNECT_SECONDS)
        try:
            answer = self._client.request(method, path, headers=headers, content=body, timeout=timeout)
        except (self._http.ConnectError, self._http.ConnectTimeout, self._http.PoolTimeout) as error:
            raise _unconnected(error) from error
        except self._http.TransportError as error:
            raise Lost(error, sent=True) from error
        kind = answer.headers.get("content-type", "").partition(";")[0]
        return Reply(answer.status_code, kind, answer.content)

    def close(self) -> None:
        super().close()
        self._client.close()

    def forget(self) -> None:
        super().forget()
        self._client = self._opened()

    def _opened(self) -> Any:
        limits = self._http.Limits(max_keepalive_connections=IDLE_MAX, keepalive_expiry=IDLE_SECONDS)
        verify = _trusting() if self._secure else True
        return self._http.Client(base_url=self._url, limits=limits, verify=verify, trust_env=False)


def _trusting() -> ssl.SSLContext:
    """As everything else on the machine does: what the system trusts, or what `SSL_CERT_FILE` names."""
    return ssl.create_default_context()


def _unconnected(error: Exception) -> Exception:
    if "CERTIFICATE_VERIFY_FAILED" not in str(error):
        return Lost(error, sent=False)
    # Asked again, it would be the same.
    why = str(error).partition("verify failed: ")[2].partition(" (_ssl")[0]
    return StoreUnusable(
        f"the server's certificate is not trusted ({why or error}); SSL_CERT_FILE names the file of one that is to be"
    )
