"""HTTP connections with limits: size and time of a request's head, the number of connections, and abortable writes.

Without the limits, a client that sends one byte a minute, or an endless header, would keep a connection and its memory
without a key and before the guard sees a request. And closing a connection gracefully waits for a client that does not
read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dibs.errors import StoreUnavailable
from dibs.server.api import responses
from dibs.server.ops.accepting import RETRY_AFTER_SECONDS, Room
from dibs.text import json_text

HEAD_BYTES_MAX = 64 * 1024
HEAD_SECONDS = 10.0
TLS_BUFFER_BYTES = 16 * 1024
ABORT_EXTENSION = "dibs.abort"
#: In the extensions of a request: the function that is told the key which the request came with.
KEY_EXTENSION = "dibs.key"
#: A request without one of these has no key.
CREDENTIALS = frozenset({b"authorization", b"cookie"})
#: In the extensions of a request whose whole body has arrived.
COMPLETE_EXTENSION = "dibs.complete"
#: A value of SO_LINGER: closing discards unsent data and resets the connection.
DISCARD_UNSENT = struct.pack("ii", 1, 0)


#: As `TakesWhole.take`.
Take = Callable[[MutableMapping[str, Any], bytes, Callable[[Response], None]], bool]


class HeadTooLarge(Exception):
    """Raised in a callback of the parser, which then gives up the connection."""


class TakesWhole(ABC):
    """An application that answers some requests without a task of their own, which costs more than a short verb."""

    @abstractmethod
    def take(self, scope: MutableMapping[str, Any], body: bytes, respond: Callable[[Response], None]) -> bool:
        """Take a request that has arrived as a whole, and call `respond` later, in the event loop. False leaves the
        request to ASGI: then nothing was done for it."""


class Connection(HttpToolsProtocol):
    #: Limits the number of connections; None: unlimited.
    room: Room | None = None
    #: Of the last request.
    _key: str | None = None
    _timer: asyncio.TimerHandle | None = None
    #: Whether the next byte belongs to the head of a request; and whether a head has begun and is not complete.
    _in_head, _has_begun = True, False
    #: Bytes received before the head was complete, and bytes that the parser has reported of it.
    _head_bytes = _parsed_bytes = 0
    #: A request whose head is complete, as long as its body may be in the bytes that are being parsed.
    _arriving: RequestResponseCycle | None = None
    _ends_head = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # A writer waits until all is sent, so that of many slow clients each holds one piece in memory. (Under TLS,
        # asyncio never resumes a writer that waits for an empty buffer.)
        transport.set_write_buffer_limits(high=TLS_BUFFER_BYTES if transport.get_extra_info("sslcontext") else 0)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self.room is not None:
            self.room.leave(self._key)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data) if self._in_head else 0
        super().data_received(data)
        self._leave_to_asgi()
        if self._has_begun:
            # Most heads arrive in one piece, and need no timer.
            self._start_timer()
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("the head of this request is too large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT_EXTENSION: {"abort": self.abort}, KEY_EXTENSION: {"use": self._use_key}}
        self._parsed_bytes = 0
        self._has_begun = True

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value) + len(b": \r\n"))

    def on_headers_complete(self) -> None:
        self._in_head = self._has_begun = False
        self._stop_timer()
        if b"//" in self.url and not self.url.startswith(b"/"):
            self._add_host_of_target()
        if self.room is not None and self.room.is_full and CREDENTIALS.isdisjoint(name for name, _ in self.headers):
            # Not aborted: a client that sent a verb and gets no answer cannot know whether it took effect.
            self.room.tell_full()
            self.app = _refuse_connection
        self._ends_head = True
        super().on_headers_complete()
        self._ends_head = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.scope["extensions"][COMPLETE_EXTENSION] = {}
        self._stop_timer()
        self._in_head, self._head_bytes = True, 0
        arrived = self._arriving
        if arrived is not None and not self.flow.write_paused and isinstance(self.app, TakesWhole):
            scope: Any = arrived.scope
            if self.app.take(scope, bytes(arrived.body), partial(self._respond, arrived)):
                self._arriving = None
            self._leave_to_asgi()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._ends_head and isinstance(app, TakesWhole) and not cycle.waiting_for_100_continue:
            self._arriving = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def _leave_to_asgi(self) -> None:
        arriving, self._arriving = self._arriving, None
        if arriving is not None:
            super()._start_asgi_task(arriving, self.app)

    def _respond(self, cycle: RequestResponseCycle, response: Response) -> None:
        """Answer a request that was taken, in one piece."""
        if cycle.disconnected or self.transport.is_closing():
            return
        head = [b"%b: %b\r\n" % header for header in response.raw_headers]
        if not cycle.keep_alive:
            head.append(b"connection: close\r\n")
        cycle.response_started = cycle.response_complete = True
        self.transport.write(b"".join((STATUS_LINE[response.status_code], *head, b"\r\n", response.body)))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._in_head:
            # Answered before the body was complete. The client gets time to send the rest, which is discarded: closed
            # at once, it would see a lost connection instead of the refusal.
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """Answer input that is not HTTP with a problem document, like every other refusal. If requests that arrived
        before it are not answered yet, their answers are the last ones: this one would be taken for one of them."""
        if self._has_unanswered():
            self.cycle.keep_alive = False
            self.transport.pause_reading()
            return
        body = json_text.line(responses.problem_body(400, "NOT_HTTP", msg)).encode()
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: {responses.PROBLEM_JSON}\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _has_unanswered(self) -> bool:
        """Whether a whole request waits for its answer."""
        last = self.cycle
        return bool(self.pipeline) or not (last is None or last.response_complete or last.more_body)

    def _add_host_of_target(self) -> None:
        """A target in absolute form names a host, too. The guard refuses a request that names two."""
        host = self.url.partition(b"//")[2]
        for end in (b"/", b"?", b"#"):
            host = host.partition(end)[0]
        if any(name == b"host" and value.lower() != host.lower() for name, value in self.headers):
            self.headers.append((b"host", host))

    def abort(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DISCARD_UNSENT)
        self.transport.abort()

    def _use_key(self, key: str) -> None:
        """Refuses a request, and closes the connection, if there is no room and this key has more than its share."""
        if self.room is None:
            return
        if key != self._key:
            self.room.move(self._key, key)
            self._key = key
        if not self.room.is_full:
            return
        try:
            self.room.require_share(key)
        except StoreUnavailable:
            self.cycle.keep_alive = False
            raise

    def _count(self, size: int) -> None:
        """Counts the parsed head, which may arrive together with a body."""
        self._parsed_bytes += size
        if self._parsed_bytes > HEAD_BYTES_MAX:
            raise HeadTooLarge

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        self.transport.close()


def limited_by(room: Room) -> type[Connection]:
    return type(Connection.__name__, (Connection,), {"room": room})


async def _refuse_connection(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    refusal = StoreUnavailable("the server has too many connections", retry_after_seconds=RETRY_AFTER_SECONDS)
    response = responses.problem(refusal.http_status, refusal.code, refusal.message, refusal.facts)
    response.headers["connection"] = "close"
    await response(scope, receive, send)


def use_key(scope: MutableMapping[str, Any], key: str) -> None:
    """Tell the connection of a request which key it came with, if it is a `Connection`."""
    found = scope.get("extensions", {}).get(KEY_EXTENSION)
    if found is not None:
        found["use"](key)


def abort_of(scope: MutableMapping[str, Any]) -> Callable[[], None] | None:
    """The function that aborts the connection of a request, if it is a `Connection`."""
    found: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT_EXTENSION, {}).get("abort")
    return found
