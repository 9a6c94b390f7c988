"""A TCP proxy that does to connections what networks do: delays, resets, silence, and a cut just after a request.

One in so many requests meets a fate, drawn by the seed; the next ones meet those that they are `doomed` to. `fired`
counts what really happened.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections import Counter

from dibs.testing.proxy import size_of_request
from tests.kit.forwarder import JOIN_SECONDS, PIECE, POLL_SECONDS, Forwarder

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

DELAY_SECONDS_MAX = 0.05
#: How many of the requests meet a fate.
SHARE = 0.12
FATES = ("delayed", "reset", "cut before", "cut after", "silent")
#: So that a close is a reset: the other side learns that something went wrong.
RESET = struct.pack("ii", 1, 0)


class ChaosProxy(Forwarder):
    """With `calm`, it only passes on what is not doomed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._draw = random.Random(seed)
        self.target = 0
        self.calm = False
        #: What becomes of the next requests, one after the other.
        self.doomed: list[str] = []
        self.fired: Counter[str] = Counter()

    def _serve(self, client: socket.socket) -> None:
        silent, came = False, b""
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        with client, server:
            while not self._over:
                for source in select.select([client, server], [], [], POLL_SECONDS)[0]:
                    try:
                        data = source.recv(PIECE)
                        if not data:
                            return
                        if source is server:
                            if not silent:
                                client.sendall(data)
                            continue
                        came += data
                        while size := size_of_request(came):
                            request, came = came[:size], came[size:]
                            fate = self._fate()
                            silent = silent or fate == "silent"
                            if fate is None:
                                server.sendall(request)
                            elif self._meets(fate, request, client, server):
                                return
                    except OSError:
                        return

    def _fate(self) -> str | None:
        if self.doomed:
            return self.doomed.pop(0)
        return self._draw.choice(FATES) if not self.calm and self._draw.random() < SHARE else None

    def _meets(self, fate: str, data: bytes, client: socket.socket, server: socket.socket) -> bool:
        """Let it happen; whether the connection is over with it."""
        self.fired[fate] += 1
        match fate:
            case "delayed":
                time.sleep(self._draw.random() * DELAY_SECONDS_MAX)
                server.sendall(data)
                return False
            case "silent":
                server.sendall(data)
                return False
            case "cut after":
                server.sendall(data)
                server.settimeout(JOIN_SECONDS)
                server.recv(PIECE)  # it was done, and nobody hears of it
            case "reset":
                server.sendall(data[: len(data) // 2])
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            case "cut before":
                pass
        return True
