"""The sweep on SQLite: what has lapsed is recorded, what is outdated is forgotten."""

from __future__ import annotations

from abc import abstractmethod

from dibs.model import FAILED, Item, Sweep
from dibs.rules import ending
from dibs.rules.overdue import freshen
from dibs.store.sql import requests, rows
from dibs.store.sql.upkeep import DIED, close, let_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from dibs.model import Owner, Request
    from dibs.rules.decision import State, Step
    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")

#: How many outdated requests one sweep forgets.
TRIM_BATCH = 1000


class Sweeping:
    @abstractmethod
    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T: ...

    def sweep(self, *, dead: Sequence[tuple[str, Owner]] = (), limit: int) -> Sweep:
        def sweep(t: Transaction) -> Sweep:
            moved = freshen_overdue(t, limit)
            expired, bereaved = moved["expired_items"], list[Item]()
            for session, owner in dead:
                bereaved += _bury(t, session, owner, limit - len(bereaved))
            since = t.now - round(t.settings.request_kept_seconds * 1000)
            t.run("trim_requests", {"before": since, "kept": requests.OUTDATED_KEPT, "limit": TRIM_BATCH})
            t.run("trim_activity", {"kept": t.settings.activity_kept})
            t.run("close_dead_tickets", {"now": t.now, "limit": limit})
            t.run("trim_tickets", {"before": since})
            t.run("trim_soft_claims", {"now": t.now})
            return Sweep(
                expired=tuple(item.id for item in expired),
                owner_died=tuple(item.id for item in bereaved),
                failed=tuple(item.id for item in [*expired, *bereaved] if item.status == FAILED),
                due=tuple(item.id for item in moved["due_items"]),
                offers=tuple(item.id for item in moved["lapsed_offers"]),
                more=len(bereaved) >= limit or any(len(found) >= limit for found in moved.values()),
            )

        return self.write(sweep)


def freshen_overdue(t: Transaction, limit: int) -> dict[str, list[Item]]:
    """Record what time has done, oldest first, at most `limit` of each: expired claims, schedules, offers."""
    moved: dict[str, list[Item]] = {}
    for what in ("expired_items", "due_items", "lapsed_offers"):
        moved[what] = []
        for (item,) in t.all(what, now=t.now, limit=limit):
            steps, state = freshen(t.now, t.state(item), t.settings)
            for step in steps:
                t.take(step)
            moved[what].append(state.item)
    return moved


def _bury(t: Transaction, session: str, owner: Owner, limit: int) -> list[Item]:
    """Give back what a session holds whose owner was found dead, unless it has ended or has another owner by now.

    Once it holds nothing any more, the session ends.
    """
    row = t.one("session_by_id", id=session)
    found = None if row is None else rows.session(row)
    if found is None or found.ended_at is not None or found.owner != owner:
        return []
    lost = let_go(t, found, _lose, limit)
    if not t.all("items_of_session", session=session, limit=1):
        close(t, found, DIED)
    return lost


def _lose(t: Transaction, state: State) -> Step:
    return ending.owner_died(t.now, state, t.settings)
