"""HTTPS, over `http.client`."""

from __future__ import annotations

import http.client
import select
import ssl
from urllib.parse import urlsplit

from dibs.errors import StoreUnusable
from dibs.store.http.transport import CONNECT_SECONDS, NoAnswer, Reply, Sender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.store.http.transport import Body, OnOpen


class TlsSender(Sender):
    def __init__(self, url: str) -> None:
        super().__init__()
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port

    def send(self, method: str, path: str, headers: dict[str, str], body: Body, timeout_seconds: float) -> Reply:
        connection = self._take(timeout_seconds)
        try:
            _request(connection, method, path, headers, body)
            answer = connection.getresponse()
            reply = Reply(answer.status, answer.headers.get_content_type(), answer.read())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NoAnswer(error, sent=True) from error
        except BaseException:
            connection.close()
            raise
        self._keep(connection, reusable=not answer.will_close)
        return reply

    def stream(
        self, path: str, headers: dict[str, str], timeout_seconds: float, on_open: OnOpen | None = None
    ) -> Iterator[bytes]:
        connection = self._take(timeout_seconds)
        try:
            if on_open is not None:
                on_open(connection.sock)
            _request(connection, "GET", path, headers, None)
            answer = connection.getresponse()
            yield str(answer.status).encode()
            yield from answer
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(error, sent=True) from error
        finally:
            connection.close()

    def _take(self, timeout_seconds: float) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = self._pop_idle()
        if connection is None:
            # The certificates that the system trusts, or those that `SSL_CERT_FILE` names.
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT_SECONDS, context=context)
            try:
                connection.connect()
            except OSError as error:
                raise _not_connected(error) from error
        connection.sock.settimeout(timeout_seconds)
        return connection

    def _is_open(self, connection: http.client.HTTPSConnection) -> bool:
        if connection.sock is None:
            return False
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        return not poll.poll(0)


def _request(
    connection: http.client.HTTPSConnection, method: str, path: str, headers: dict[str, str], body: Body
) -> None:
    chunked = body is not None and not isinstance(body, bytes)
    if chunked:
        headers = {**headers, "Transfer-Encoding": "chunked"}
    connection.request(method, path, body=body, headers=headers, encode_chunked=chunked)


def _not_connected(error: Exception) -> Exception:
    if "CERTIFICATE_VERIFY_FAILED" not in str(error):
        return NoAnswer(error, sent=False)
    # A retry would fail in the same way.
    why = str(error).partition("verify failed: ")[2].partition(" (_ssl")[0]
    return StoreUnusable(
        f"the server's certificate is not trusted ({why or error}); if it should be, set SSL_CERT_FILE to its file"
    )
