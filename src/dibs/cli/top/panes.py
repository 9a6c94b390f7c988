"""The lists of the screen: what needs a person, claims, the queue, sessions, drafts that wait, events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dibs.cli.event_lines import KIND_COLOURS, details
from dibs.cli.render import STATUS_COLOURS, agent_colour
from dibs.cli.top import attention
from dibs.cli.top.attention import short
from dibs.cli.top.rows import HATCH, Column, Rows, bar
from dibs.model import PENDING_APPROVAL, READY
from dibs.rules.event_kinds import OUTCOMES
from dibs.text import priorities, times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.cli.top.rows import Cell
    from dibs.cli.top.state import BoardState
    from dibs.model.dashboard import Brief, Held, Paged

BAR_COLUMNS = 10
MARK_COLOURS = {
    **{"ok": "green", "warning": "yellow", "expiring": "bold red", "stale": "yellow", "orphaned": "bold red"},
    "overdue": "bold red",
}
RANKS = ("magenta", "yellow", "yellow", "red")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
GONE: Cell = ("", "dim")


class Needs(Rows):
    TITLE = "Needs you"
    EMPTY = "Nothing needs you."
    SELECTS = True
    COLUMNS = (
        Column(title="", columns=1),
        Column(title="item", columns=14, grows=2),
        Column(title="why", columns=24, grows=3),
        Column(title="title", columns=10, grows=4, least=70),
    )

    def find(self) -> list[str]:
        self._found = {need.item: need for need in attention.needs(self.state)}
        return list(self._found)

    def cells(self, key: str) -> Sequence[Cell]:
        need, item = self._found.get(key), self.state.items.get(key)
        title = "" if item is None else item.title
        if need is None:
            return ("✓", "green"), (key, "dim"), ("settled", "dim"), (title, "dim")
        colour = RANKS[need.rank]
        return ("!", f"bold {colour}"), (key, "bold"), (need.why, colour), (title, "dim")


class Flight(Rows):
    TITLE = "In flight"
    EMPTY = "Nobody holds anything. `dibs next` takes the best item."
    COLUMNS = (
        Column(title="item", columns=13, grows=2),
        Column(title="session", columns=7, grows=1),
        Column(title="agent", columns=8, grows=1, least=100),
        Column(title="left", columns=BAR_COLUMNS, least=52),
        Column(title="", columns=7, right=True),
        Column(title="", columns=8),
        Column(title="note", columns=8, grows=4, least=62),
        Column(title="waiting", columns=8, grows=1, least=72),
    )

    def __init__(self, state: BoardState, *, id: str) -> None:
        super().__init__(state, id=id)
        self.filter = ""

    def find(self) -> list[str]:
        matches = attention.matcher(self.state, self.filter)
        holdings = list(self.state.holdings.values())
        if self.filter:
            holdings = [one for one in holdings if (item := self.state.items.get(one.item)) and matches(item)]
        return [held.item for held in sorted(holdings, key=lambda held: (held.expires_at, held.item))]

    def heading(self) -> str:
        silent = sum(attention.is_silent(self.state, held) for held in self.state.holdings.values())
        return super().heading() + (f", {silent} silent" if silent else "") + shown_filter(self.filter)

    def cells(self, key: str) -> Sequence[Cell]:
        state, held = self.state, self.state.holdings.get(key)
        if held is None:
            item = state.items.get(key)
            return (key, "dim"), GONE, GONE, ("ended" if item is None else item.status, "dim"), GONE, GONE, GONE, GONE
        lease, left, mark = lease_of(state, held)
        if attention.is_silent(state, held):
            note: Cell = (f"silent {short((state.now - held.renewed_at) / 1000)}", "yellow")
        else:
            note = (held.note.note, "") if held.note is not None else ("-", "dim")
        waiting = ", ".join(one.session + (" (offered)" if one.offered else "") for one in held.waiters)
        colour = MARK_COLOURS[mark]
        return (
            *((key, "bold"), (held.session, ""), (held.agent, agent_colour(held.agent))),
            *((lease, colour), (left, colour), (mark, colour), note, (waiting, "cyan")),
        )


class Queue(Rows):
    TITLE = "Queue"
    EMPTY = 'Nothing is here. `dibs add "Login fails on Safari"` adds an item.'
    SELECTS = True
    COLUMNS = (
        Column(title="priority", columns=8),
        Column(title="item", columns=14, grows=2),
        Column(title="title", columns=10, grows=4, least=50),
        Column(title="type", columns=6, least=100),
        Column(title="labels", columns=6, grows=1, least=110),
        Column(title="claimed by", columns=14, grows=1),
        Column(title="waits", columns=3, least=60, right=True),
    )

    def __init__(self, state: BoardState, *, id: str) -> None:
        super().__init__(state, id=id)
        self.filter = ""
        #: The answer of the board to a filter over more items than the screen knows.
        self.page: Paged | None = None

    def find(self) -> list[str]:
        if self.page is not None:
            for item in self.page.items:
                self.state.items.setdefault(item.id, item)
            return [item.id for item in self.page.items]
        matches = attention.matcher(self.state, self.filter)
        return [item.id for item in sorted(filter(matches, self.state.items.values()), key=attention.in_order)]

    def heading(self) -> str:
        left_off = self.page.total - len(self.page.items) if self.page is not None else self.state.left_off
        beyond = f" of {self.count + left_off:,}" if left_off > 0 and (self.page or not self.filter) else ""
        return f"{self.TITLE} {self.count:,}{beyond}" + shown_filter(self.filter)

    def cells(self, key: str) -> Sequence[Cell]:
        item = self.state.items.get(key)
        if item is None:
            return GONE, (key, "dim"), GONE, GONE, GONE, ("gone", "dim"), GONE
        urgent = "bold red" if item.priority >= 10 else "yellow" if item.priority >= 8 else ""
        return (
            *((priorities.name(item.priority), urgent), (key, "bold"), (item.title, "")),
            *((item.type, "dim"), (" ".join(item.labels), "dim"), holder_of(self.state, item)),
            (str(item.waiters or ""), "cyan"),
        )


class Sessions(Rows):
    TITLE = "Sessions"
    EMPTY = "No session is live."
    COLUMNS = (
        Column(title="score", columns=3, right=True),
        Column(title="session", columns=10, grows=1),
        Column(title="agent", columns=9, grows=1),
        Column(title="kind", columns=10, least=100),
        Column(title="seen", columns=4, right=True),
        Column(title="holds", columns=12, grows=2),
        Column(title="left", columns=BAR_COLUMNS, least=110),
        Column(title="last ten", columns=10, least=60),
        Column(title="reasons", columns=10, grows=3, least=80),
    )

    def find(self) -> list[str]:
        self._scores = {seat.id: attention.score(self.state, seat) for seat in self.state.seats.values()}
        return sorted(self._scores, key=lambda id: (self._scores[id][0], not self.state.seats[id].holding, id))

    def item_of(self, key: str) -> str | None:
        seat = self.state.seats.get(key)
        return seat.holding[0] if seat is not None and seat.holding else None

    def heading(self) -> str:
        working = sum(bool(seat.holding) for seat in self.state.seats.values())
        return f"{super().heading()} · {working:,} working"

    def cells(self, key: str) -> Sequence[Cell]:
        state, seat = self.state, self.state.seats.get(key)
        if seat is None:
            return GONE, (key, "dim"), ("ended", "dim"), *(GONE,) * 6
        score, reasons = self._scores.get(key, (100, ()))
        colour = "green" if score >= 80 else "yellow" if score >= 50 else "bold red"
        held = next((state.holdings[item] for item in seat.holding if item in state.holdings), None)
        lease, _, mark = ("", "", "ok") if held is None else lease_of(state, held)
        texts = [f"-{one.points} {one.text}" for one in reasons]
        return (
            *((str(score), colour), (seat.id, "bold"), (seat.agent, agent_colour(seat.agent)), (seat.kind, "dim")),
            *((short((state.now - seat.seen_at) / 1000), "dim"), (", ".join(seat.holding), "")),
            *((lease, MARK_COLOURS[mark]), ("".join(_sign(run.outcome) for run in seat.recent), "")),
            ("  ".join(texts), "yellow"),
        )


class Approvals(Rows):
    TITLE = "Approvals"
    EMPTY = "Nothing waits for approval."
    COLUMNS = (
        Column(title="item", columns=14, grows=1),
        Column(title="waits", columns=5, right=True),
        Column(title="what", columns=6),
        Column(title="priority", columns=8, least=60),
        Column(title="action", columns=8, grows=1, least=90),
        Column(title="title", columns=12, grows=4),
    )

    def find(self) -> list[str]:
        waiting = [item for item in self.state.items.values() if item.status == PENDING_APPROVAL]
        return [item.id for item in sorted(waiting, key=lambda item: (item.updated_at, item.id))]

    def cells(self, key: str) -> Sequence[Cell]:
        item = self.state.items.get(key)
        if item is None or item.status != PENDING_APPROVAL:
            return (key, "dim"), GONE, ("settled", "dim"), GONE, GONE, GONE
        return (
            *((key, "bold"), (short((self.state.now - item.updated_at) / 1000), "magenta")),
            *(("draft" if item.token else "plan", ""), (priorities.name(item.priority), ""), (item.action, "dim")),
            (item.title, ""),
        )


class Events(Rows):
    TITLE = "Events"
    EMPTY = "Nothing has happened yet."
    COLUMNS = (
        Column(title="at", columns=8),
        Column(title="item", columns=14, grows=2),
        Column(title="what", columns=12),
        Column(title="who", columns=9, grows=1, least=50),
        Column(title="words", columns=8, grows=4, least=56),
    )

    def find(self) -> list[str]:
        self._found = {str(event.id): event for event in self.state.events if event.kind != "claimable"}
        return list(self._found)

    def item_of(self, key: str) -> str | None:
        event = self._found.get(key)
        return None if event is None else event.item

    def heading(self) -> str:
        return self.TITLE

    def cells(self, key: str) -> Sequence[Cell]:
        event = self._found.get(key)
        if event is None:
            return (GONE,) * 5
        what = event.kind.replace("_", " ")
        return (
            *((clock_or_day(event.at), "dim"), (event.item, "bold"), (what, KIND_COLOURS.get(event.kind, ""))),
            *((event.session or event.actor, "dim"), (details(event)[1], "")),
        )


def _sign(outcome: str | None) -> str:
    """A run in one sign, as on the dashboard."""
    return OUTCOMES[outcome].sign if outcome in OUTCOMES else "·"


def lease_of(state: BoardState, held: Held) -> tuple[str, str, str]:
    """The time that a claim has left: as a bar, as text to the second, and its mark in a word."""
    seconds = (held.expires_at - state.now) / 1000
    if seconds > times.ENDLESS_SECONDS:
        return "∞".ljust(BAR_COLUMNS), "", "ok"
    shown = bar(seconds / held.ttl_seconds, BAR_COLUMNS)
    if state.is_away:
        shown = "".join(HATCH if one != " " else " " for one in shown)
    return shown, clock_left(seconds), attention.mark(state, held) if seconds > 0 else "overdue"


def clock_or_day(at: int) -> str:
    """An instant in local time, in eight columns: 14:05:11, of another day Nov 15, of another year Nov 2025."""
    then, today = time.localtime(at / 1000), time.localtime()
    if then[:3] == today[:3]:
        return time.strftime("%H:%M:%S", then)
    day = f"{then.tm_mday:>2}" if then.tm_year == today.tm_year else f"{then.tm_year}"
    return f"{MONTHS[then.tm_mon - 1]} {day}"


def clock_left(seconds: float) -> str:
    """21:14, 1:02:05, 31h 05."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    if hours > 9:
        return f"{hours}h {minute:02}"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def holder_of(state: BoardState, item: Brief) -> Cell:
    """Who has the item, or why nobody can have it."""
    held = state.holdings.get(item.id)
    if held is not None and attention.is_silent(state, held):
        return f"[!] {held.session} silent {short((state.now - held.renewed_at) / 1000)}", "yellow"
    if held is not None:
        return f"[*] {held.session} {short((state.now - held.claimed_at) / 1000)}", "cyan"
    if item.offered_to is not None and (item.offer_expires_at or 0) > state.now:
        return f"offered to {item.offered_to}", "cyan"
    if item.status == READY:
        return "--", "dim"
    blocker = f" by {item.open_blockers[0].item}" if item.open_blockers else ""
    colour = STATUS_COLOURS.get(item.status, "")
    return item.status.replace("_", " ") + blocker, colour


def shown_filter(text: str) -> str:
    return f" / {text}" if text else ""
