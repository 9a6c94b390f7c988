"""A board followed live, for people: after a view, its events and what changes without an event, on every store.

A store without a server is read directly: events when its watch says that something changed, vitals every two seconds.
Overdue steps are recorded meanwhile, as `Board.follow` does. Behind a server, the server's stream has the same.
"""

from __future__ import annotations

import threading
from time import monotonic

from dibs.model.dashboard import VitalChange, Vitals
from dibs.store.contract import Live

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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
        self._board, self._view = board, view
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def __iter__(self) -> Iterator[Event | VitalChange]:
        board, after, known = self._board, self._view.event, _vitals_of(self._view)
        vitals_at = monotonic()
        watch = board.watch(sweeps=True)
        is_changed = True
        try:
            while not self._closed.is_set():
                vitals_due = monotonic() >= vitals_at
                events = board.events(after=after, limit=PAGE) if is_changed or vitals_due else ()
                yield from events
                after = events[-1].id if events else after
                if vitals_due:
                    found = board.store.vitals()
                    yield difference(known, found)
                    known, vitals_at = found, monotonic() + VITALS_SECONDS
                if len(events) == PAGE:
                    continue
                is_changed = watch.wait(max(0.0, min(WAIT_SECONDS, vitals_at - monotonic())))
                if is_changed:
                    self._closed.wait(COALESCE_SECONDS)
        finally:
            watch.close()


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
