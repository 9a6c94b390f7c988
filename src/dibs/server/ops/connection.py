"""A connection as we take it: whoever sends the head of a request has so much room and so much time for it, one whose
client does not read can be cut, and one too many is told so.

Without that, a caller who sends one byte a minute, or a header that never ends, would keep a connection and its memory
for ever, without a key and before the guard sees anything of it; and to close one politely means to wait for what its
client does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Callable, MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dibs.errors import StoreUnavailable
from dibs.server.api import problems
from dibs.server.ops.open_files import Room
from dibs.text import json_text

HEAD_BYTES_MAX = 64 * 1024
HEAD_SECONDS = 10.0
TLS_BUFFER_BYTES = 16 * 1024
#: When one that was refused for want of room may come back.
RETRY_SECONDS = 5
CUT = "dibs.cut"
#: Closed with this, a socket forgets what it has not sent, and its peer is told so at once.
FORGET = struct.pack("ii", 1, 0)


class HeadTooLarge(Exception):
    """Seen by the parser, which gives up on the connection."""


class Connection(HttpToolsProtocol):
    #: How many a process takes on, and refuses; None: as many as come.
    room: Room | None = None
    _timer: asyncio.TimerHandle | None = None
    _in_head = True
    #: What came in while the head was not complete, and what of it the parser has told of.
    _head_bytes = _told_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Whoever sends waits until all was taken: of a thousand slow clients, each keeps one piece here, and not many.
        # (Under TLS, asyncio never lets a writer go on that has to wait for an empty buffer.)
        transport.set_write_buffer_limits(high=TLS_BUFFER_BYTES if transport.get_extra_info("sslcontext") else 0)
        self._expect_head()
        if self.room is not None:
            self._need_room(len(self.connections) - self.room.connections_max, self.room)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data) if self._in_head else 0
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("the head of this request is too large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CUT: {"cut": self.cut}}
        self._told_bytes = 0
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value) + len(b": \r\n"))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._stop_timer()
        self._in_head, self._head_bytes = True, 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._in_head:
            # Answered before its body was here. Who hears of that only after sending it gets a while for the rest,
            # which is thrown away: cut off at once, it would take the refusal for a lost connection.
            self._expect_head()

    def send_400_response(self, msg: str) -> None:
        """What cannot be read as HTTP is refused like everything else."""
        body = json_text.line(problems.body(400, "NOT_HTTP", msg)).encode()
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: {problems.MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def cut(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, FORGET)
        self.transport.abort()

    def _need_room(self, beyond: int, room: Room) -> None:
        if beyond > room.refused_max:
            self.cut()
        elif beyond > 0:
            # Not cut off: whoever sends a verb and hears nothing cannot know whether it was done.
            self.app = _no_room

    def _count(self, size: int) -> None:
        """The whole head may come in one piece of data, with a body behind it."""
        self._told_bytes += size
        if self._told_bytes > HEAD_BYTES_MAX:
            raise HeadTooLarge

    def _expect_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        self.transport.close()


def within(room: Room) -> type[Connection]:
    """Connections of a process that has so much room."""
    return type(Connection.__name__, (Connection,), {"room": room})


async def _no_room(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    logging.warning("a connection was refused: there are as many as this process can have")
    refusal = StoreUnavailable("this server has as many connections as it can", retry_after_seconds=RETRY_SECONDS)
    response = problems.response(refusal.http_status, refusal.code, refusal.message, refusal.facts)
    response.headers["connection"] = "close"
    await response(scope, receive, send)


def cutter(scope: MutableMapping[str, Any]) -> Callable[[], None] | None:
    """What cuts the connection of a request, if it came over one of these."""
    found: Callable[[], None] | None = scope.get("extensions", {}).get(CUT, {}).get("cut")
    return found
