"""The stream of brief events and vitals (`GET /api/events?brief=1`) as values: server-sent events, parsed."""

from __future__ import annotations

import socket

from dibs.errors import StoreUnavailable
from dibs.model import Event
from dibs.model.dashboard import Seat, VitalChange
from dibs.store.contract import REPLACED, Live
from dibs.store.http.client import RETRY_SECONDS, refusal, unavailable
from dibs.store.http.transport import NoAnswer, Reply
from dibs.text import json_text, times, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.store.http.client import Client

#: How often the server is asked to send something, and the time after which one that is silent has gone.
KEEP_ALIVE_SECONDS = 2
SILENT_SECONDS = 5.0
#: The same for a server that does not say in its opening that it will: it sends something every 15 seconds.
SILENT_SECONDS_OF_OLDER = 40.0
#: A restored board numbers its events further on than this; gaps in a feed are smaller.
LEAP_MIN = 1_000
UNAUTHORIZED = 401


class HttpLive(Live):
    def __init__(self, client: Client, after: int) -> None:
        self._client, self._after = client, after
        #: The latest event that the stream has passed, and where it was when the vitals before came.
        self._cursor, self._cursor_then = after, 0
        self._socket: socket.socket | None = None
        self._is_closed = False

    def __iter__(self) -> Iterator[Event | VitalChange]:
        path = f"/api/events?brief=1&keep_alive={KEEP_ALIVE_SECONDS}&after={self._after}"
        lines = self._client.sender.stream(path, self._client.headers, SILENT_SECONDS_OF_OLDER, self._opened)
        try:
            status = int(next(lines))
            if status != 200:
                raise refusal(Reply(status, "", b"".join(lines)))
            for name, data in self._frames(lines):
                if name == "vitals":
                    told = json_text.loads(data)
                    self._compare(told.get("event", self._cursor))
                    yield _change(told)
                elif name == "refused":
                    raise refusal(Reply(UNAUTHORIZED, "", data.encode()))
                elif name == "stopping":
                    break
                else:
                    yield wire.decode(Event, json_text.loads(data))
        except NoAnswer as lost:
            if not self._is_closed:
                raise unavailable(lost, unknown=False) from lost
        finally:
            self._socket = None
        if not self._is_closed:
            raise StoreUnavailable("the server stopped", retry_after_seconds=RETRY_SECONDS)

    def close(self) -> None:
        self._is_closed = True
        if (opened := self._socket) is not None:
            _end(opened)

    def _opened(self, opened: socket.socket) -> None:
        self._socket = opened
        if self._is_closed:
            _end(opened)

    def _frames(self, lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
        """The name and the data of each event that has data: an opening and a keep-alive have none."""
        fields: dict[str, str] = {}
        for line in lines:
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if name:
                fields[name] = value
                continue
            if "id" in fields:
                self._advance(int(fields["id"]))
            if "keep-alive" in fields and self._socket is not None:
                self._socket.settimeout(SILENT_SECONDS)
            if "data" in fields:
                yield fields.get("event", ""), fields["data"]
            fields = {}

    def _advance(self, cursor: int) -> None:
        if cursor - self._cursor > LEAP_MIN:
            raise StoreUnavailable(REPLACED, retry_after_seconds=0)
        self._cursor = cursor

    def _compare(self, event: int) -> None:
        """Events that were sent before vitals may be newer than they are, but those sent before the previous ones are
        not."""
        if event < self._cursor_then:
            raise StoreUnavailable(REPLACED, retry_after_seconds=0)
        self._cursor_then = self._cursor


def _end(opened: socket.socket) -> None:
    """Wake the thread that reads from it, which closes it. Of a TLS connection only the socket below is shut down: the
    rest belongs to that thread."""
    try:
        socket.socket.shutdown(opened, socket.SHUT_RDWR)
    except OSError:
        pass  # it was closed meanwhile


def _change(told: dict[str, Any]) -> VitalChange:
    sessions = told["sessions"]
    return VitalChange(
        at=times.parse_instant(told["at"]),
        renewed={item: (times.parse_instant(expires), count) for item, (expires, count) in told["renewed"].items()},
        seen={session: times.parse_instant(at) for session, at in told["seen"].items()},
        queues={item: tuple(queue) for item, queue in told["queues"].items()},
        started=tuple(wire.decode(Seat, seat) for seat in sessions["started"]),
        ended=tuple(sessions["ended"]),
    )
