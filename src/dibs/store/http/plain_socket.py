"""Requests over a bare socket. For a command that lives for one verb, `http.client` and what it imports (`ssl`,
`email`) take longer to load than a claim takes on a file; for a program that stays, a library takes longer over each
request than a server over a verb, and who waits for an item waits for that as well.

It speaks as much HTTP/1.1 as our own server does: bodies with a length or in chunks, connections that stay open.
"""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

from dibs.errors import Invalid
from dibs.files.keyring import address
from dibs.store.http.transport import CONNECT_SECONDS, IDLE_MAX, IDLE_SECONDS, Lost, Reply, Sender

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.store.http.transport import Body

LINE_BYTES_MAX = 65536
HEADERS_MAX = 200
#: Enough for any answer to a verb; what is longer comes as a stream.
ANSWER_BYTES_MAX = 1 << 30


class NotHttp(OSError):
    """Whatever answers there, it is no server of ours, or it broke off."""


class PlainSender(Sender):
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = address(parts.hostname or ""), parts.port or 80
        self._named = parts.netloc.rpartition("@")[2]
        self._idle: list[tuple[float, Connection]] = []

    def send(self, method: str, path: str, headers: dict[str, str], body: Body, timeout_seconds: float) -> Reply:
        head = self._head(method, path, headers, body)
        connection = self._connected(timeout_seconds)
        try:
            connection.ask(head, body)
            status, told = connection.answer_head()
            content = b"".join(connection.body(status, told))
        except OSError as error:
            connection.close()
            raise Lost(error, sent=True) from error
        except BaseException:
            connection.close()
            raise
        if told.get("connection", "").lower() == "close" or len(self._idle) >= IDLE_MAX:
            connection.close()
        else:
            self._idle.append((time.monotonic(), connection))
        return Reply(status, told.get("content-type", "").partition(";")[0].strip(), content)

    def stream(self, path: str, headers: dict[str, str], timeout_seconds: float) -> Iterator[bytes]:
        connection = self._connected(timeout_seconds)
        try:
            connection.ask(self._head("GET", path, headers, None), None)
            status, told = connection.answer_head()
            yield str(status).encode()
            rest = b""
            for piece in connection.body(status, told):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line + b"\n"
            if rest:
                yield rest
        except OSError as error:
            raise Lost(error, sent=True) from error
        finally:
            connection.close()

    def close(self) -> None:
        found, self._idle = self._idle, []
        for _, connection in found:
            connection.close()

    def forget(self) -> None:
        self._idle = []

    def _connected(self, timeout_seconds: float) -> Connection:
        while self._idle:
            try:
                since, connection = self._idle.pop()
            except IndexError:
                break  # another thread was faster
            if time.monotonic() - since < IDLE_SECONDS and connection.is_at_rest():
                connection.socket.settimeout(timeout_seconds)
                return connection
            connection.close()
        try:
            made = socket.create_connection((self._host, self._port), CONNECT_SECONDS)
        except OSError as error:
            raise Lost(error, sent=False) from error
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.settimeout(timeout_seconds)
        return Connection(made)

    def _head(self, method: str, path: str, headers: dict[str, str], body: Body) -> bytes:
        told = {"Host": self._named, **headers}
        if isinstance(body, bytes):
            told["Content-Length"] = str(len(body))
        elif body is not None:
            told["Transfer-Encoding"] = "chunked"
        elif method != "GET":
            told["Content-Length"] = "0"
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
        if not all(line.isascii() and line.isprintable() for line in lines):
            # Above all a key with a line break at its end, which would be a header of its own.
            raise Invalid("something in this request cannot be sent: is DIBS_KEY a key?", field="key")
        return "\r\n".join([*lines, "", ""]).encode("ascii")


class Connection:
    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self._file = made.makefile("rb")

    def is_at_rest(self) -> bool:
        """Whether nothing has come since the last answer: on a connection that nobody uses, only its end comes."""
        self.socket.settimeout(0)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def ask(self, head: bytes, body: Body) -> None:
        if body is None or isinstance(body, bytes):
            self.socket.sendall(head + (body or b""))
            return
        self.socket.sendall(head)
        for piece in body:
            if piece:
                self.socket.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.socket.sendall(b"0\r\n\r\n")

    def answer_head(self) -> tuple[int, dict[str, str]]:
        version, _, rest = self._line().partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise NotHttp("this is no answer of a server")
        headers: dict[str, str] = {}
        for _ in range(HEADERS_MAX):
            line = self._line()
            if not line:
                return int(rest[:3]), headers
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        raise NotHttp("this answer has more headers than any of ours")

    def body(self, status: int, headers: dict[str, str]) -> Iterator[bytes]:
        if status == 204:
            return
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while size := self._number(self._line().partition(";")[0], 16):
                yield self._exactly(size)
                self._line()
            while self._line():
                pass
        elif "content-length" in headers:
            yield self._exactly(self._number(headers["content-length"], 10))
        else:
            raise NotHttp("this answer does not say how long it is")

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def _line(self) -> str:
        line = self._file.readline(LINE_BYTES_MAX)
        if not line.endswith(b"\n"):
            raise NotHttp("the connection broke before the answer was complete")
        return line.rstrip(b"\r\n").decode("latin-1")

    def _exactly(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise NotHttp("the connection broke before the answer was complete")
        return found

    def _number(self, text: str, base: int) -> int:
        try:
            found = int(text.strip(), base)
        except ValueError:
            found = -1
        if not 0 <= found <= ANSWER_BYTES_MAX:
            raise NotHttp("this answer does not say how long it is")
        return found
