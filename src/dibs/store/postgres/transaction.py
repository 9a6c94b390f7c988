"""A transaction on PostgreSQL, for the verbs that the client's rules decide.

Rows are locked in one order: the session, items by id (what an item waits for before itself), claims. The clock is
read again whenever an item is locked, so that what was decided on could not change since.
"""

from __future__ import annotations

import psycopg

from dibs.model import READY
from dibs.store.postgres import answers
from dibs.store.postgres.queries import STATEMENTS
from dibs.store.sql.transaction import Transaction
from dibs.text import json_text, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.config import Settings
    from dibs.model import Item
    from dibs.rules.claiming import Asker
    from dibs.rules.decision import Step
    from dibs.store.postgres.connections import Connection

# The search path is that of the connection, except behind a pooler, where settings last for a transaction.
BEGIN = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = pg_catalog, pg_temp;"
    " SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL idle_in_transaction_session_timeout = {};"
    " SELECT dibs.clock() FROM dibs.feed_enter()"
)
BEGIN_READING = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = pg_catalog, pg_temp;"
    " SET LOCAL plan_cache_mode = force_custom_plan;"
    " SELECT dibs.clock()"
)
#: Rows that a reader of a whole table has at a time.
BATCH = 2000


#: The number of the event by which a new item becomes claimable.
NEW = 2


class PostgresTransaction(Transaction):
    misfits = (psycopg.IntegrityError, psycopg.DataError)

    def __init__(
        self, connection: Connection, settings: Settings, *, writable: bool, idle_seconds: float | None = None
    ) -> None:
        """Begins it, and reads the clock, in one round trip.

        A client that is stopped in the middle loses it after `idle_seconds`, so that it cannot keep others waiting.
        """
        #: Whether something is free again that was not new.
        self.came_back = False
        self.settings = settings
        self.writable = writable
        self._connection = connection
        words = BEGIN_READING
        if writable:
            words = BEGIN.format(round((idle_seconds or settings.lock_wait_seconds) * 1000))
        begun = connection.execute(words.encode())
        while begun.nextset():
            pass
        row = begun.fetchone()
        assert row is not None
        self.now = row[0]

    def one(self, statement: str, /, **parameters: Any) -> tuple[Any, ...] | None:
        return self._connection.execute(STATEMENTS[statement], parameters).fetchone()

    def all(self, statement: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(STATEMENTS[statement], parameters).fetchall()

    def each(self, statement: str, /, **parameters: Any) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor(name=f"each_{statement}") as cursor:
            cursor.itersize = BATCH
            for row in cursor.execute(STATEMENTS[statement], parameters):
                yield self._as_on_the_wire(row) if statement == "requests" else row

    def run(self, statement: str, parameters: dict[str, Any]) -> None:
        self._connection.execute(STATEMENTS[statement], parameters)

    def run_one(self, statement: str, parameters: dict[str, Any]) -> None:
        hit = self._connection.execute(STATEMENTS[statement], parameters).rowcount
        if hit != 1:
            raise AssertionError(f"{statement} hit {hit} rows instead of one")

    def take(self, step: Step) -> None:
        super().take(step)
        if step.item.status == READY and step.event.kind in ("claimable", "edited") and step.event.number > NEW:
            self.came_back = True
        # Who waits is told by the commit itself: nobody else would.
        waiting = {ticket.session for ticket in step.closed}
        if step.event.kind == "offered" and step.event.session is not None:
            waiting.add(step.event.session)
        for session in sorted(waiting):
            self.run("tell_session", {"session": session})

    def lock_items(self, items: Iterable[str]) -> None:
        ids = list(items)
        if ids and self.writable:
            self.all("lock_items", ids=ids)

    def lock_dependencies(self) -> None:
        self.one("lock_dependencies")

    def lock_new_session(self, session: str) -> None:
        self.one("lock_new_session", id=session)

    def lock_session(self, session: str) -> None:
        if self.writable:
            self.one("lock_session", id=session)

    def lock_item(self, item: str) -> None:
        if self.writable:
            row = self.one("lock_item", id=item)
            assert row is not None
            self.now = row[0]

    def ahead_of(self, asker: Asker, item: Item, most: int) -> int:
        row = self.one(
            "ahead",
            agent=asker.agent.name,
            session=asker.session.id,
            item=item.id,
            priority=item.priority,
            most=most,
            now=self.now,
        )
        return 0 if row is None else int(row[0])

    def number_events_past(self, number: int) -> None:
        if number:
            self.run("number_events_past", {"number": number})

    def _as_on_the_wire(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A kept answer as every store understands it; those of the functions are kept as they were."""
        *columns, answer, at, shape = row
        if shape is not None:
            value = answers.SHAPES[shape](json_text.loads(answer), self.settings)
            answer = json_text.dumps(wire.encode(value))
        return (*columns, answer, at)
