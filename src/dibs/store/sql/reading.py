"""Reading a board: each verb one snapshot, no lock, nobody waits for a reader.

What is read stands in `views` and `figures`, imported when it is wanted: a claim does not pay for it.
"""

from __future__ import annotations

from abc import abstractmethod

from dibs.errors import Invalid
from dibs.store.contract import page
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from dibs.model import (
        Activity,
        Agent,
        Detail,
        Event,
        Holding,
        Item,
        Owner,
        Pulse,
        Reason,
        Run,
        SessionView,
        Stats,
        Waiting,
    )
    from dibs.store.contract import FindDead, Page
    from dibs.store.sql.transaction import Transaction

    T = TypeVar("T")

EVER = 2**63 - 1


class Reading:
    find_dead: FindDead

    @abstractmethod
    def read(self, work: Callable[[Transaction], T]) -> T: ...

    def feed_end(self) -> int:
        """The event up to which nothing can appear in the feed any more; looked up before the snapshot is taken."""
        return EVER

    def get(self, item: str) -> Detail:
        from dibs.store.sql import views

        return self.read(lambda t: views.get(t, item, self.find_dead))

    def list(
        self,
        *,
        statuses: Sequence[str] = (),
        projects: Sequence[str] = (),
        types: Sequence[str] = (),
        labels: Sequence[str] = (),
        after: str | None = None,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Item]:
        from dibs.store.sql import views

        asked = {"statuses": statuses, "projects": projects, "types": types, "labels": labels}
        return self.read(
            lambda t: views.list_items(t, self.find_dead, **asked, after=after, limit=limit, bytes_max=bytes_max)
        )

    def events(
        self,
        *,
        after: int | None = None,
        item: str | None = None,
        newest: bool = False,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Event]:
        until = self.feed_end() if item is None else EVER

        def events(t: Transaction) -> Page[Event]:
            cursor = _cursor(t, after)
            name = ("feed" if item is None else "feed_of_item") + ("_newest" if newest else "")
            parameters = {} if item is None else {"item": item}
            found, more = rows.up_to(bytes_max, t, name, **parameters, after=cursor, until=until, limit=limit)
            events = map(rows.event, found)
            return page(reversed([*events]) if newest else events, more=more)

        return self.read(events)

    def runs(
        self,
        *,
        item: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        after: tuple[str, int] | None = None,
        limit: int,
        bytes_max: int | None = None,
    ) -> Page[Run]:
        from dibs.store.sql import views

        asked = {"item": item, "session": session, "agent": agent}
        return self.read(
            lambda t: views.runs(t, self.find_dead, **asked, after=after, limit=limit, bytes_max=bytes_max)
        )

    def activity(self, *, item: str | None = None, agent: str | None = None, limit: int) -> tuple[Activity, ...]:
        return self._many(rows.activity, "list_activity", item=item, agent=agent, limit=limit)

    def agents(self) -> tuple[Agent, ...]:
        return self._many(rows.agent, "list_agents")

    def sessions(self, *, ended: bool = False, limit: int) -> tuple[SessionView, ...]:
        from dibs.store.sql import views

        return self.read(lambda t: views.sessions(t, self.find_dead, ended=ended, limit=limit))

    def owners(self, *, boot_id: str, pid_namespace: int) -> tuple[tuple[str, Owner], ...]:
        return self.read(lambda t: t.owners(boot_id, pid_namespace))

    def who(self) -> tuple[Holding, ...]:
        from dibs.store.sql import views

        return self.read(lambda t: views.who(t, self.find_dead))

    def ticket(self, item: str, *, session: str) -> Waiting:
        from dibs.store.sql import views

        return self.read(lambda t: views.ticket(t, item, session, self.find_dead))

    def why(self, item: str, *, session: str | None = None, agent: str | None = None) -> tuple[Reason, ...]:
        from dibs.store.sql import views

        return self.read(lambda t: views.why(t, item, session, agent, self.find_dead))

    def stats(self, *, agent: str | None = None) -> Stats:
        from dibs.store.sql import figures

        return self.read(lambda t: figures.stats(t, agent, self.find_dead))

    def pulse(self) -> Pulse:
        from dibs.store.sql import figures

        return self.read(lambda t: figures.pulse(t, self.find_dead))

    def due_seconds(self, item: str | None = None) -> float | None:
        def due(t: Transaction) -> float | None:
            row = t.one("due") if item is None else t.one("due_of_item", item=item)
            return None if row is None or row[0] is None else max(0, row[0] - t.now) / 1000

        return self.read(due)

    def _many(self, make: Callable[[tuple[Any, ...]], T], statement: str, /, **parameters: Any) -> tuple[T, ...]:
        return self.read(lambda t: tuple(make(row) for row in t.all(statement, **parameters)))


def _cursor(t: Transaction, after: int | None) -> int:
    """Where to read on from; a cursor from before what was pruned would skip something, and is refused."""
    floor = int(t.figure("meta", name="event_floor") or 0)
    if after is None:
        return 0
    if after < floor:
        raise Invalid(
            f"events up to {floor} were pruned, so reading on after {after} would skip some; start without a cursor",
            field="after",
            event_floor=floor,
        )
    return after
