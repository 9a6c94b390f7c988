"""The stream of brief events and vitals (`GET /api/events?brief=1`) as values: server-sent events, parsed."""

from __future__ import annotations

from dibs.errors import StoreUnavailable
from dibs.model import Event
from dibs.model.dashboard import Seat, VitalChange
from dibs.store.http.client import RETRY_SECONDS, refusal, unavailable
from dibs.store.http.transport import NoAnswer, Reply
from dibs.text import json_text, times, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.store.http.client import Client

#: A server sends something at least every 15 seconds. One that was silent for longer than this has gone.
SILENT_SECONDS = 40.0
UNAUTHORIZED = 401


def follow(client: Client, after: int) -> Iterator[Event | VitalChange]:
    """The events after a cursor, and vitals. It ends by an error only: the server stopped, refused, or is away."""
    lines = client.sender.stream(f"/api/events?brief=1&after={after}", client.headers, SILENT_SECONDS)
    try:
        status = int(next(lines))
        if status != 200:
            raise refusal(Reply(status, "", b"".join(lines)))
        for name, data in _frames(lines):
            if name == "vitals":
                yield _change(json_text.loads(data))
            elif name == "refused":
                raise refusal(Reply(UNAUTHORIZED, "", data.encode()))
            elif name == "stopping":
                break
            else:
                yield wire.decode(Event, json_text.loads(data), lenient=True)
    except NoAnswer as lost:
        raise unavailable(lost, unknown=False) from lost
    raise StoreUnavailable("the server stopped", retry_after_seconds=RETRY_SECONDS)


def _frames(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """The name and the data of each event that has data: an opening and a keep-alive have none."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name:
            fields[name] = value
            continue
        if "data" in fields:
            yield fields.get("event", ""), fields["data"]
        fields = {}


def _change(told: dict[str, Any]) -> VitalChange:
    sessions = told["sessions"]
    return VitalChange(
        at=times.parse_instant(told["at"]),
        renewed={item: (times.parse_instant(expires), count) for item, (expires, count) in told["renewed"].items()},
        seen={session: times.parse_instant(at) for session, at in told["seen"].items()},
        queues={item: tuple(queue) for item, queue in told["queues"].items()},
        started=tuple(wire.decode(Seat, seat, lenient=True) for seat in sessions["started"]),
        ended=tuple(sessions["ended"]),
    )
