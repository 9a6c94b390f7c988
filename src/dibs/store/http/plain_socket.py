"""The parts of HTTP/1.1 that a server of dibs needs, over a bare socket.

To load `http.client` with its imports (`ssl`, `email`) takes longer than a whole claim on SQLite, and a request through
a library takes longer than the server needs for a verb.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from dibs.errors import Invalid
from dibs.store.http.transport import CONNECT_SECONDS, NoAnswer, Reply, Sender
from dibs.system.keyring import address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.store.http.transport import Body, OnOpen

LINE_BYTES_MAX = 65536
HEADERS_MAX = 200
#: More than the answer of any verb; longer answers are streamed.
ANSWER_BYTES_MAX = 1 << 30


class NotHttp(OSError):
    """The answer is not HTTP/1.1 as a server of dibs sends it, or is incomplete."""


class PlainSender(Sender):
    def __init__(self, url: str) -> None:
        super().__init__()
        parts = urlsplit(url)
        self._host, self._port = address(parts.hostname or ""), parts.port or 80
        self._host_header = parts.netloc.rpartition("@")[2]

    def send(self, method: str, path: str, headers: dict[str, str], body: Body, timeout_seconds: float) -> Reply:
        head = self._head(method, path, headers, body)
        connection = self._take(timeout_seconds)
        try:
            connection.send(head, body)
            status, reply_headers = connection.read_head()
            content = b"".join(connection.body(status, reply_headers))
        except OSError as error:
            connection.close()
            raise NoAnswer(error, sent=True) from error
        except BaseException:
            connection.close()
            raise
        self._keep(connection, reusable=reply_headers.get("connection", "").lower() != "close")
        return Reply(status, reply_headers.get("content-type", "").partition(";")[0].strip(), content)

    def stream(
        self, path: str, headers: dict[str, str], timeout_seconds: float, on_open: OnOpen | None = None
    ) -> Iterator[bytes]:
        connection = self._take(timeout_seconds)
        try:
            if on_open is not None:
                on_open(connection.socket)
            connection.send(self._head("GET", path, headers, None), None)
            status, reply_headers = connection.read_head()
            yield str(status).encode()
            rest = b""
            for piece in connection.body(status, reply_headers):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line + b"\n"
            if rest:
                yield rest
        except OSError as error:
            raise NoAnswer(error, sent=True) from error
        finally:
            connection.close()

    def _take(self, timeout_seconds: float) -> Connection:
        connection: Connection | None = self._pop_idle()
        if connection is None:
            try:
                made = socket.create_connection((self._host, self._port), CONNECT_SECONDS)
            except OSError as error:
                raise NoAnswer(error, sent=False) from error
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(made)
        connection.socket.settimeout(timeout_seconds)
        return connection

    def _is_open(self, connection: Connection) -> bool:
        connection.socket.settimeout(0)
        try:
            connection.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def _head(self, method: str, path: str, headers: dict[str, str], body: Body) -> bytes:
        headers = {"Host": self._host_header, **headers}
        if isinstance(body, bytes):
            headers["Content-Length"] = str(len(body))
        elif body is not None:
            headers["Transfer-Encoding"] = "chunked"
        elif method != "GET":
            headers["Content-Length"] = "0"
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if not all(line.isascii() and line.isprintable() for line in lines):
            # A line break in a key, for example, would start another header.
            raise Invalid("a header of this request has invalid characters; check DIBS_KEY", field="key")
        return "\r\n".join([*lines, "", ""]).encode("ascii")


class Connection:
    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self._file = made.makefile("rb")

    def send(self, head: bytes, body: Body) -> None:
        if body is None or isinstance(body, bytes):
            self.socket.sendall(head + (body or b""))
            return
        self.socket.sendall(head)
        for piece in body:
            if piece:
                self.socket.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.socket.sendall(b"0\r\n\r\n")

    def read_head(self) -> tuple[int, dict[str, str]]:
        version, _, rest = self._line().partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise NotHttp("the answer is not HTTP")
        headers: dict[str, str] = {}
        for _ in range(HEADERS_MAX):
            line = self._line()
            if not line:
                return int(rest[:3]), headers
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        raise NotHttp("the answer has too many headers")

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
            raise NotHttp("the answer has no valid length")

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
            raise NotHttp("the answer has no valid length")
        return found
