"""The board as the screen knows it: one view, which events and vitals bring up to date as the rules fold them.

Nothing here knows a terminal. Time is the board's clock: it runs on from the instant of the latest answer, and stands
while the board is away.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from dibs import config
from dibs.model import BLOCKED, DONE, ENDED, FAILED, IN_PROGRESS, Event, NewItem
from dibs.model.dashboard import Brief, Held, PastRun, Remark, Seat, VitalChange, Waiter
from dibs.model.results import Blocker
from dibs.rules import replay
from dibs.rules.items import AT_FIRST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.model.dashboard import View

EVENTS_MAX = 500
RECENT_MAX = 10
#: A screen that is open for days must not collect every item that ever ended.
ITEMS_MAX = 8_000
DEFAULTS: dict[str, Any] = {
    **{name: value for name, value in NewItem.defaults().items() if name in Brief._fields},
    **AT_FIRST,
    **{"title": "", "open_blockers": (), "waiters": 0},
}


class BoardState:
    def __init__(self, view: View) -> None:
        self.items: dict[str, Brief] = {}
        self.holdings: dict[str, Held] = {}
        self.seats: dict[str, Seat] = {}
        #: The latest events, the newest first.
        self.events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._stands_at: int | None = None
        self.replace(view)

    def replace(self, view: View) -> None:
        """Know what the view says, and nothing else."""
        self.items = {item.id: item for item in view.items}
        self.holdings = {held.item: held for held in view.holdings}
        self.seats = {seat.id: seat for seat in view.sessions}
        self.counts = dict(view.counts)
        self.left_off = view.left_off
        self.me = view.me or {"role": "viewer", "actor": ""}
        known = {name: value for name, value in view.settings.items() if name in config.DEFAULTS.as_dict()}
        self.settings = config.DEFAULTS.replace(**known)
        self.read_at, self.read_event = view.at, view.event
        self._set_clock(view.at)

    # Time

    @property
    def now(self) -> int:
        """This instant on the board's clock, in milliseconds."""
        return self._clock() if self._stands_at is None else self._stands_at

    @property
    def is_away(self) -> bool:
        return self._stands_at is not None

    def stand(self) -> None:
        """The board is away: what it said last stays on the screen, and no time passes."""
        self._stands_at = self.now

    def _set_clock(self, at: int) -> None:
        self._offset, self._stands_at = at - monotonic() * 1000, None

    def _clock(self) -> int:
        return int(monotonic() * 1000 + self._offset)

    # What happens

    def remember(self, events: Iterable[Event]) -> None:
        """Events from before the view, oldest first, for the list of events only."""
        for event in events:
            self._list(event)

    def apply(self, news: Event | VitalChange) -> bool:
        """Whether the item of an event is known; if not, the board has to be read again."""
        if isinstance(news, VitalChange):
            if news.at >= self.read_at:
                self._set_clock(news.at)
                self._apply_vitals(news)
            return True
        # An event cannot be in the future: if it seems so, the clock here is late.
        if news.at > self.now:
            self._set_clock(news.at)
        self._list(news)
        return self._apply_event(news)

    def _list(self, event: Event) -> None:
        if not self.events or event.id > self.events[0].id:
            self.events.appendleft(event)

    def _apply_event(self, event: Event) -> bool:
        before = self.items.get(event.item)
        if before is not None and event.number <= before.revision:
            return True
        if before is None and event.kind != "added":
            return event.id <= self.read_event
        item = self._added(event) if before is None else replay.after(before, event)
        item = item.replace(open_blockers=self._blockers(item), reason=_reason(before, item, event))
        self.items[item.id] = item
        self._count(None if before is None else before.status, item.status)
        if item.status in ENDED or (before is not None and before.status in ENDED):
            self._tell_dependents(item.id)
        self._hold(item, event)
        self._trim()
        return True

    def _added(self, event: Event) -> Brief:
        given = {name: event.data[name] for name in DEFAULTS if name in event.data}
        lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return Brief(
            **DEFAULTS | given | lists,
            id=event.item,
            status=event.status,
            created_by=event.actor,
            created_at=event.at,
            updated_at=event.at,
            token=event.token,
            revision=event.number,
        )

    def _blockers(self, item: Brief) -> tuple[Blocker, ...]:
        if item.status != BLOCKED:
            return ()
        known = {one.item: one.status for one in item.open_blockers}
        found = []
        for id in item.depends_on:
            needed = self.items.get(id)
            # A dependency that is not known here, and was not open before, is done.
            status = known.get(id, DONE) if needed is None else needed.status
            if status != DONE:
                found.append(Blocker(item=id, status=status, will_move=status not in ENDED))
        return tuple(found)

    def _tell_dependents(self, ended: str) -> None:
        for item in list(self.items.values()):
            if ended in item.depends_on:
                self.items[item.id] = item.replace(open_blockers=self._blockers(item))

    def _count(self, before: str | None, after: str) -> None:
        if before is not None:
            self.counts[before] = max(0, self.counts.get(before, 0) - 1)
        self.counts[after] = self.counts.get(after, 0) + 1

    def _hold(self, item: Brief, event: Event) -> None:
        """The claim of the item, and the seat of its session."""
        held = self.holdings.get(item.id)
        if event.kind == "claimed" and event.session is not None:
            self._claim(item, event, event.session)
        elif held is not None and item.status != IN_PROGRESS:
            del self.holdings[item.id]
            self._end(held, event)
        elif held is not None and event.kind == "progress":
            note = Remark(at=event.at, note=str(event.data.get("note") or ""))
            expires_at = min(event.at + int(held.ttl_seconds * 1000), held.deadline_at)
            self.holdings[item.id] = held.replace(renewed_at=event.at, expires_at=expires_at, note=note)

    def _claim(self, item: Brief, event: Event, session: str) -> None:
        seat = self.seats.get(session)
        ttl_seconds = float(event.data.get("ttl_seconds", self.settings.ttl_seconds))
        deadline_at = int(event.data.get("deadline_at") or event.at + item.timeout_seconds * 1000)
        self.holdings[item.id] = Held(
            item=item.id,
            token=event.token,
            session=session,
            agent=event.agent or "",
            kind=None if seat is None else seat.kind,
            claimed_at=event.at,
            renewed_at=event.at,
            expires_at=min(event.at + int(ttl_seconds * 1000), deadline_at),
            deadline_at=deadline_at,
            ttl_seconds=ttl_seconds,
            health="healthy",
            heartbeat_count=0,
        )
        if seat is not None:
            run = PastRun(item=item.id, outcome=None, started_at=event.at, ended_at=None)
            holding = (*(one for one in seat.holding if one != item.id), item.id)
            recent = (run, *seat.recent)[:RECENT_MAX]
            self.seats[session] = seat.replace(seen_at=event.at, holding=holding, recent=recent)

    def _end(self, held: Held, event: Event) -> None:
        seat = self.seats.get(held.session)
        if seat is None:
            return
        is_own = [run.item == held.item and run.ended_at is None for run in seat.recent]
        recent = tuple(
            run.replace(outcome=event.kind, ended_at=event.at) if own else run
            for own, run in zip(is_own, seat.recent, strict=True)
        )
        self.seats[seat.id] = seat.replace(
            holding=tuple(one for one in seat.holding if one != held.item),
            recent=recent,
            ended=seat.ended | {event.kind: seat.ended.get(event.kind, 0) + 1},
        )

    def _apply_vitals(self, change: VitalChange) -> None:
        for item, (expires_at, count) in change.renewed.items():
            held = self.holdings.get(item)
            if held is None or (held.expires_at, held.heartbeat_count) == (expires_at, count):
                continue
            # A claim that reaches its deadline expires earlier than its TTL after the renewal.
            renewed_at = change.at if expires_at >= held.deadline_at else expires_at - int(held.ttl_seconds * 1000)
            self.holdings[item] = held.replace(expires_at=expires_at, renewed_at=renewed_at, heartbeat_count=count)
        for session, at in change.seen.items():
            if session in self.seats:
                self.seats[session] = self.seats[session].replace(seen_at=at)
        for item, queue in change.queues.items():
            self._queue(item, queue, change.at)
        self.seats |= {seat.id: seat for seat in change.started}
        for session in change.ended:
            self.seats.pop(session, None)

    def _queue(self, item: str, queue: tuple[str, ...], at: int) -> None:
        held = self.holdings.get(item)
        if held is not None:
            known = {one.session: one for one in held.waiters}
            self.holdings[item] = held.replace(waiters=tuple(known.get(id) or self._waiter(id, at) for id in queue))
        if item in self.items:
            self.items[item] = self.items[item].replace(waiters=len(queue))

    def _waiter(self, session: str, at: int) -> Waiter:
        seat = self.seats.get(session)
        return Waiter(session=session, agent="" if seat is None else seat.agent, since_at=at, expires_at=at)

    def _trim(self) -> None:
        surplus = len(self.items) - ITEMS_MAX
        if surplus > 0:
            ended = [item.id for item in self.items.values() if item.status in ENDED]
            for id in ended[:surplus]:
                del self.items[id]


def _reason(before: Brief | None, item: Brief, event: Event) -> str | None:
    """Why a failed item failed: events that change other things of it say nothing about that."""
    if item.status != FAILED:
        return None
    if before is not None and before.status == FAILED:
        return before.reason
    reason: str | None = event.data.get("reason")
    return reason
