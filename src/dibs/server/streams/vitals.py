"""What changes without an event: renewals, sessions that were seen, queues, sessions that started or ended.

Streams that asked for brief events share one read of the store, at most every two seconds while there is such a stream.
A stream gets the difference to the read before, and everything at its start or if it was too slow for the differences.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from dibs.errors import DibsError
from dibs.model.dashboard import Vitals
from dibs.sdk import live
from dibs.text import times, wire

EVERY_SECONDS = 2.0
#: How many differences are kept for streams that are slow.
FRAMES_KEPT = 30
#: How many ended sessions a new stream is told about: its page may have read the board before they ended.
ENDED_KEPT = 200


class VitalSigns:
    """Used in the event loop only."""

    def __init__(
        self, read: Callable[[], Awaitable[Vitals]], wake: Callable[[], None], go_back: Callable[[int], None]
    ) -> None:
        """`go_back` is called with the latest event of a board that was replaced by an older copy of itself."""
        self._read, self._wake, self._go_back = read, wake, go_back
        self._latest: Vitals | None = None
        #: The event of the latest reading, also while there is no listener.
        self._event = 0
        self._frames: OrderedDict[int, bytes] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._number = 0
        self._listeners = 0
        self._reading: asyncio.Future[None] | None = None

    def add_listener(self) -> None:
        self._listeners += 1
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read_repeatedly())

    def remove_listener(self) -> None:
        self._listeners -= 1

    def after(self, seen: int) -> tuple[int, bytes]:
        """The number of the latest frame, and what to send to a stream that has the frames up to `seen`; 0: none."""
        if seen == self._number or self._latest is None:
            return seen, b""
        if seen + 1 in self._frames:
            return self._number, b"".join(frame for number, frame in self._frames.items() if number > seen)
        return self._number, frame_of(everything(self._latest, list(self._ended)))

    async def _read_repeatedly(self) -> None:
        # The last differences are too old for the next listener.
        self._latest = None
        self._frames.clear()
        while self._listeners:
            try:
                found = await self._read()
                self._publish(found)
            except Exception as error:
                # The streams say that the store is unavailable when events cannot be read; any other error is a bug,
                # and must not end the vitals of all streams.
                if not isinstance(error, DibsError):
                    logging.exception("reading the vitals failed; retrying")
            await asyncio.sleep(EVERY_SECONDS)

    def _publish(self, found: Vitals) -> None:
        before, self._latest = self._latest, found
        if found.event < self._event:
            self._go_back(found.event)
        self._event = found.event
        if before is None:
            self._number += 1
        elif has_news(before, told := difference(before, found)):
            self._number += 1
            self._frames[self._number] = frame_of(told)
            self._ended |= dict.fromkeys(told["sessions"]["ended"])
        else:
            return
        while len(self._frames) > FRAMES_KEPT:
            self._frames.popitem(last=False)
        while len(self._ended) > ENDED_KEPT:
            self._ended.popitem(last=False)
        self._wake()


def has_news(before: Vitals, told: dict[str, Any]) -> bool:
    """Also of an event: one that the stream does not send shows that the board was replaced."""
    return (
        told["event"] != before.event
        or any(told[name] for name in ("renewed", "seen", "queues"))
        or any(told["sessions"].values())
    )


def everything(found: Vitals, ended: list[str]) -> dict[str, Any]:
    nothing = found.replace(claims={}, seen={}, queues={}, seats=())
    return {**difference(nothing, found), "sessions": {"started": wire.encode(found.seats), "ended": ended}}


def difference(before: Vitals, after: Vitals) -> dict[str, Any]:
    """What is new, as JSON data."""
    change = live.difference(before, after)
    return {
        "event": after.event,
        "at": times.iso(change.at),
        "renewed": {item: [times.iso(expires_at), count] for item, (expires_at, count) in change.renewed.items()},
        "seen": {id: times.iso(at) for id, at in change.seen.items()},
        "queues": {item: list(queue) for item, queue in change.queues.items()},
        "sessions": {"started": wire.encode(change.started), "ended": list(change.ended)},
    }


def frame_of(told: dict[str, Any]) -> bytes:
    """Without an id: a client that reconnects resumes after the last event."""
    return f"event: vitals\ndata: {json.dumps(told)}\n\n".encode()
