"""A board followed live, for people: after a view, its events and what changes without an event, on every store.

A store without a server is read directly: events when its watch says that something changed, vitals every two seconds.
Overdue steps are recorded meanwhile, as `Board.follow` does. Behind a server, the server's stream has the same.
"""

from __future__ import annotations

import threading
from time import monotonic

from dibs.errors import Invalid, StoreUnavailable
from dibs.model.dashboard import VitalChange, Vitals
from dibs.store.contract import REPLACED, Live

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dibs.board import Board
    from dibs.model import Event
    from dibs.model.dashboard import View

__all__ = ["Live", "difference", "follow"]

VITALS_SECONDS = 2.0
#: How soon the end of following is noticed.
WAIT_SECONDS = 0.5
#: Events that arrive within this time are read together.
COALESCE_SECONDS = 0.2
PAGE = 500


def follow(board: Board, view: View) -> Live:
    """What happens on the board after the view."""
    return board.store.live(view.event) if board.store.waits else _ReadLive(board, view)


class _ReadLive(Live):
    def __init__(self, board: Board, view: View) -> None:
        self._board, self._view, self._after = board, view, view.event
        #: The latest event that is known. A board that has it no more is another one.
        self._latest: Event | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def __iter__(self) -> Iterator[Event | VitalChange]:
        board, known = self._board, _vitals_of(self._view)
        self._latest = self._event_of_view()
        vitals_at = monotonic()
        watch = board.watch(sweeps=True)
        is_changed = True
        try:
            while not self._closed.is_set():
                vitals_due = monotonic() >= vitals_at
                events = self._events() if is_changed or vitals_due else ()
                yield from events
                if vitals_due:
                    found = board.store.vitals()
                    if found.event < self._after:
                        raise StoreUnavailable(REPLACED, retry_after_seconds=0)
                    yield difference(known, found)
                    known, vitals_at = found, monotonic() + VITALS_SECONDS
                if len(events) == PAGE:
                    continue
                is_changed = watch.wait(max(0.0, min(WAIT_SECONDS, vitals_at - monotonic())))
                if is_changed:
                    self._closed.wait(COALESCE_SECONDS)
        finally:
            watch.close()

    def _event_of_view(self) -> Event | None:
        if not self._view.event:
            return None
        try:
            found = self._board.events(after=self._view.event - 1, limit=1)
        except Invalid:
            return None  # it was pruned
        return found[0] if found and found[0].id == self._view.event else None

    def _events(self) -> Sequence[Event]:
        """The events after the latest one that is known, which is read with them."""
        latest = self._latest
        if latest is None:
            events: Sequence[Event] = self._board.events(after=self._after, limit=PAGE)
        else:
            first, *events = self._board.events(after=latest.id - 1, limit=PAGE + 1) or (None,)
            if first is None or (first.id, first.item, first.at) != (latest.id, latest.item, latest.at):
                raise StoreUnavailable(REPLACED, retry_after_seconds=0)
        if events:
            self._latest, self._after = events[-1], events[-1].id
        return events


def difference(before: Vitals, after: Vitals) -> VitalChange:
    """What is new. An empty queue has become empty."""
    emptied: dict[str, tuple[str, ...]] = dict.fromkeys(before.queues.keys() - after.queues.keys(), ())
    return VitalChange(
        at=after.at,
        renewed={item: claim for item, claim in after.claims.items() if before.claims.get(item) != claim},
        seen={id: at for id, at in after.seen.items() if before.seen.get(id) != at},
        queues=emptied | {item: queue for item, queue in after.queues.items() if before.queues.get(item) != queue},
        started=tuple(seat for seat in after.seats if seat.id not in before.seen),
        ended=tuple(sorted(before.seen.keys() - after.seen.keys())),
    )


def _vitals_of(view: View) -> Vitals:
    return Vitals(
        event=view.event,
        at=view.at,
        claims={held.item: (held.expires_at, held.heartbeat_count) for held in view.holdings},
        seen={seat.id: seat.seen_at for seat in view.sessions},
        queues={held.item: tuple(one.session for one in held.waiters) for held in view.holdings if held.waiters},
    )
