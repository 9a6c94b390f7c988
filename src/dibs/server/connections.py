"""A connection that can be cut: to close one politely means to wait for what its client does not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

EXTENSION = "dibs.cut"
#: Closed with this, a socket forgets what it has not sent, and its peer is told so at once.
FORGET = struct.pack("ii", 1, 0)


class Connection(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Whoever sends waits until all was taken: of a thousand slow clients, each keeps one piece here, and not many.
        transport.set_write_buffer_limits(high=0)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: {"cut": self.cut}}

    def cut(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, FORGET)
        self.transport.abort()


def cutter(scope: MutableMapping[str, Any]) -> Callable[[], None] | None:
    """What cuts the connection of a request, if it came over one of these."""
    found: Callable[[], None] | None = scope.get("extensions", {}).get(EXTENSION, {}).get("cut")
    return found
