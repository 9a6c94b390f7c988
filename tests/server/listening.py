"""Subscribers by the hundred in one process: sockets and a selector, ids compared and nothing parsed."""

from __future__ import annotations

import json
import re
import select
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from dibs.testing.sizes import times

RECEIVE_BYTES = 1 << 18
#: Far beyond what anything here takes: the bound of a test that would wait for ever.
PATIENCE_SECONDS = times(120)
EVENT = re.compile(rb"\nid: (\d+)\nevent: ")
CUT = (ConnectionResetError, BrokenPipeError)


class Listener:
    """One subscriber. `ids` are those of the events it was told, as they stand on the wire."""

    def __init__(self, port: int, key: str, path: str = "/api/events", *, last: int | str | None = None) -> None:
        self.socket = socket.socket()
        self.ids: list[bytes] = []
        self.text = b""
        self.status = 0
        self.ended = False
        self._rest = b""
        self._headed = False
        self._request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n"
        if last is not None:
            self._request += f"Last-Event-ID: {last}\r\n"
        self._port = port

    def connect(self, receive_buffer_bytes: int | None = None) -> Listener:
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.connect(("127.0.0.1", self._port))
        self.socket.sendall(self._request.encode() + b"\r\n")
        self.socket.setblocking(False)
        return self

    @property
    def subscribed(self) -> bool:
        return self._headed

    @property
    def problem(self) -> dict[str, Any] | None:
        """Why there is no stream, once all of it is there."""
        try:
            found: dict[str, Any] = json.loads((self.text + self._rest).strip())
        except ValueError:
            return None
        return found

    @property
    def last(self) -> int:
        return int(self.ids[-1])

    def take(self) -> None:
        """What there is now."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except CUT:
            data = b""
        if not data:
            self.ended = True
            return
        if not self._headed:
            self._take_head(data)
        else:
            self.take_in(data)

    def take_in(self, data: bytes) -> None:
        """Whole events; the line end before one belongs to it."""
        data = self._rest + data
        cut = data.rfind(b"\n\n") + 1
        self._rest = data[cut:]
        self.hear(EVENT.findall(data[:cut]), data[:cut])

    def hear(self, ids: list[bytes], text: bytes) -> None:
        self.ids += ids
        self.text += text

    def _take_head(self, data: bytes) -> None:
        self._rest += data
        head, found, rest = self._rest.partition(b"\r\n\r\n")
        if found:
            self._headed, self._rest = True, b"\n"
            self.status = int(head.split(b" ", 2)[1])
            self.take_in(rest)

    def close(self) -> None:
        self.socket.close()


class Counting(Listener):
    """One of a crowd: it only sees that each id is the one that comes next of those that are expected."""

    def __init__(self, port: int, key: str, expected: Sequence[bytes]) -> None:
        super().__init__(port, key)
        self.expected = expected
        self.count = 0

    def hear(self, ids: list[bytes], text: bytes) -> None:
        assert ids == self.expected[self.count : self.count + len(ids)], "something was skipped, or told twice"
        self.count += len(ids)


class Crowd:
    """Those who read."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._selector = selectors.DefaultSelector()
        self.listeners = listeners
        for one in listeners:
            self._selector.register(one.socket, selectors.EVENT_READ, one)

    def read(self, seconds: float = 0.0) -> None:
        """What anybody has been sent, waiting no longer than this for the first."""
        for key, _ in self._selector.select(seconds):
            key.data.take()
            if key.data.ended:
                self._selector.unregister(key.fileobj)

    def read_until(self, seen: Callable[[Listener], bool]) -> None:
        """Until it is so for each of them."""
        end = time.monotonic() + PATIENCE_SECONDS
        waiting = [one for one in self.listeners if not seen(one)]
        while waiting:
            assert time.monotonic() < end, f"{len(waiting)} of {len(self.listeners)} still wait"
            self.read(1.0)
            waiting = [one for one in waiting if not seen(one)]

    def close(self) -> None:
        self._selector.close()
        for one in self.listeners:
            one.close()


def await_cut(listeners: Sequence[Listener]) -> None:
    """Until the server has cut each of them off, without reading anything."""
    poll = select.poll()
    for one in listeners:
        # Asked for nothing, it tells of the end all the same.
        poll.register(one.socket, 0)
    end = time.monotonic() + PATIENCE_SECONDS
    left = len(listeners)
    while left:
        assert time.monotonic() < end, f"{left} of {len(listeners)} were not cut off"
        for descriptor, _ in poll.poll(1000):
            poll.unregister(descriptor)
            left -= 1


def listening(*listeners: Listener) -> Crowd:
    """These, subscribed."""
    crowd = Crowd([one.connect() if one.socket.getsockname()[1] == 0 else one for one in listeners])
    crowd.read_until(lambda one: one.subscribed or one.ended)
    return crowd
