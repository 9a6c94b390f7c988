"""How an item moves: where it rests, who is offered it, what time does to it, what it sets free."""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MAX_STRIKES = 5
ACCEPT_SECONDS = 15
ENDED = ("done", "failed", "rejected", "cancelled")
RESTING = ("pending_approval", "blocked", "scheduled", "ready")
#: Expiry, a schedule and a queue of lapsed offers may follow one another.
MOVES_MAX = 100


class No(Exception):
    """A refusal: its code, and the facts that the caller is told."""

    def __init__(self, code: str, **facts: Any) -> None:
        super().__init__(code, facts)
        self.code, self.facts = code, facts


class Moving:
    def __init__(self, now: int) -> None:
        self.now = now
        self.items: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        #: How many claims were given.
        self.given = 0
        #: By session, the event that the answer to its latest heartbeat named, and how many claims were given by then.
        self.known_events: dict[str, tuple[int | None, int]] = {}
        self.runs: dict[tuple[str, int], dict[str, Any]] = {}
        #: What was learned of a run once it had ended.
        self.annotations: dict[tuple[str, int], str] = {}
        self.tickets: dict[str, list[dict[str, Any]]] = {}
        self.soft: dict[tuple[str, str], dict[str, Any]] = {}
        self.sessions: dict[str, dict[str, Any]] = {}
        #: agent -> (most claims of a session, most claims of all its sessions)
        self.limits: dict[str, tuple[int | None, int | None]] = {}
        #: Agents to whom everything is a sensitive action.
        self.drafters: set[str] = set()

    def add(self, item: str, **fields: Any) -> str:
        """The new item, or the one that has its subject. `fields`: priority, timeout, depends_on, not_before, retries,
        needs_approval, review, subject."""
        if fields.get("subject") and (known := self.of_subject(fields["subject"])) is not None:
            return known
        zero = {"token": 0, "strikes": 0, "failures": 0, "attempts": 0, "revision": 0, "approved": False}
        nobody = {"status": None, "offered_to": None, "offer_expires_at": None, "title": item, "subject": None}
        plain = {"priority": 5, "timeout": 28800.0, "depends_on": (), "not_before": None, "retries": 0}
        asks = {"needs_approval": False, "review": False}
        self.items[item] = {**zero, **nobody, **plain, **asks, **fields, "age": len(self.items)}
        self.tickets[item] = []
        self.move(item, self.rest(item))
        return item

    def of_subject(self, subject: str) -> str | None:
        return next((item for item, row in self.items.items() if row["subject"] == subject), None)

    def live(self, item: str) -> dict[str, Any] | None:
        claim = self.claims.get(item)
        return claim if claim is not None and self.now < claim["expires_at"] else None

    def waiters(self, item: str) -> list[dict[str, Any]]:
        """The live tickets, in order."""
        return [ticket for ticket in self.tickets[item] if self.now < ticket["expires_at"]]

    def blocked(self, item: str) -> bool:
        return any(self.items[one]["status"] != "done" for one in self.items[item]["depends_on"])

    def rest(self, item: str) -> str:
        """Where it is when nobody holds it."""
        row = self.items[item]
        if row["needs_approval"]:
            return "pending_approval"
        if self.blocked(item):
            return "blocked"
        return "scheduled" if row["not_before"] is not None and row["not_before"] > self.now else "ready"

    def move(self, item: str, status: str) -> None:
        """One event, and what follows from it."""
        row = self.items[item]
        before, row["status"] = row["status"], status
        row["revision"] += 1
        if status != "ready":
            row.update(offered_to=None, offer_expires_at=None)
        elif before != "ready":
            self.offer(item)
        if status in ENDED:
            self.tickets[item].clear()
        if status == "done":
            for other, its in self.items.items():
                if item in its["depends_on"] and its["status"] == "blocked" and self.rest(other) != "blocked":
                    self.move(other, self.rest(other))
        elif before == "done":
            for other, its in self.items.items():
                if item in its["depends_on"] and its["status"] in ("ready", "scheduled"):
                    self.move(other, "blocked")

    def offer(self, item: str) -> None:
        """To the first live ticket, or to everyone; dead tickets are gone."""
        row = self.items[item]
        row["revision"] += 1
        self.tickets[item] = self.waiters(item)
        first = self.tickets[item][0]["session"] if self.tickets[item] else None
        row.update(offered_to=first, offer_expires_at=first and self.now + ACCEPT_SECONDS * 1000)

    def drop_ticket(self, item: str, session: str) -> None:
        self.tickets[item] = [ticket for ticket in self.tickets[item] if ticket["session"] != session]

    def end(self, item: str, outcome: str, status: str) -> None:
        """The claim is over."""
        self.runs[item, self.claims.pop(item)["token"]]["outcome"] = outcome
        self.move(item, status)

    def expire(self, item: str) -> None:
        self.items[item]["strikes"] += 1
        self.end(item, "expired", "failed" if self.items[item]["strikes"] >= MAX_STRIKES else self.rest(item))

    def freshen(self, item: str) -> None:
        """Write down what time has done to it."""
        row = self.items[item]
        for _ in range(MOVES_MAX):
            if item in self.claims:
                if self.live(item):
                    return
                self.expire(item)
            elif row["offer_expires_at"] is not None and row["offer_expires_at"] <= self.now:
                row["revision"] += 1
                self.drop_ticket(item, row["offered_to"])
                self.offer(item)
            elif row["status"] == "scheduled" and self.rest(item) != "scheduled":
                self.move(item, self.rest(item))
            else:
                return
        raise AssertionError(f"{item} does not come to rest")

    def undo(self, item: str) -> Callable[[], None]:
        """What makes the item again what it is now."""
        row, tickets = deepcopy(self.items[item]), deepcopy(self.tickets[item])
        key = (item, int(row["token"]))
        claim, run = deepcopy(self.claims.get(item)), deepcopy(self.runs.get(key))

        def back() -> None:
            self.items[item], self.tickets[item] = row, tickets
            if claim is not None and run is not None:
                self.claims[item], self.runs[key] = claim, run

        return back

    @contextmanager
    def up_to_date(self, item: str) -> Iterator[dict[str, Any]]:
        """Its row as time has made it, for a verb that writes that down unless it is refused."""
        undo = self.undo(item)
        self.freshen(item)
        try:
            yield self.items[item]
        except No:
            undo()
            raise

    def session(self, session: str) -> None:
        if not self.sessions[session]["live"]:
            raise No("SESSION_NOT_FOUND")

    def held(self, session: str) -> set[str]:
        return {item for item, claim in self.claims.items() if claim["session"] == session and self.live(item)}
