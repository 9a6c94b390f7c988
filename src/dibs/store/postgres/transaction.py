"""A transaction on PostgreSQL, for the verbs that the rules decide in the client.

Rows are locked in one order: the session, items by id (dependencies before their dependents), claims. Locking an item
reads the clock again, so that `now` is never before a change that the decision depends on.
"""

from __future__ import annotations

import psycopg

from dibs.model import READY
from dibs.store.postgres import answers
from dibs.store.postgres.calls import CLAIM, claim_past_dead_owners, settings_row, texts
from dibs.store.postgres.queries import STATEMENTS
from dibs.store.sql import rows
from dibs.store.sql.transaction import Transaction
from dibs.text import json_text, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from dibs.config import Settings
    from dibs.model import Grant, Item, Owner
    from dibs.rules.claiming import Claimant
    from dibs.rules.decision import Step
    from dibs.store.postgres.connections import Connection

# The connection sets the search path too, but behind a pooler a setting lasts only for a transaction.
BEGIN = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = pg_catalog, pg_temp;"
    " SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL idle_in_transaction_session_timeout = {};"
    " SELECT dibs.clock() FROM dibs.feed_enter()"
)
# A read finds few rows through indexes: parallel workers, or a compiled plan, would take longer to start than to read.
BEGIN_READING = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = pg_catalog, pg_temp;"
    " SET LOCAL plan_cache_mode = force_custom_plan;"
    " SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off;"
    " SELECT dibs.clock()"
)
#: How many rows of a whole table are fetched at a time.
BATCH = 2000
#: The number of the event that makes a new item claimable.
FIRST_CLAIMABLE = 2


class PostgresTransaction(Transaction):
    row_errors = (psycopg.IntegrityError, psycopg.DataError)

    def __init__(
        self, connection: Connection, settings: Settings, *, writable: bool, idle_seconds: float | None = None
    ) -> None:
        """Begin, and read the clock, in one round trip.

        The server ends the transaction after `idle_seconds` without a statement, so that a stopped client cannot block
        others.
        """
        #: Whether an item that existed before became claimable again.
        self.item_returned = False
        self.settings = settings
        self.writable = writable
        self._connection = connection
        begin = BEGIN_READING
        if writable:
            begin = BEGIN.format(round((idle_seconds or settings.lock_wait_seconds) * 1000))
        begun = connection.execute(begin.encode())
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
            cursor.execute(STATEMENTS[statement], parameters)
            while found := cursor.fetchmany(BATCH):
                yield from map(self._in_wire_format, found) if statement == "requests" else found

    def stream(self, statement: str, /, **parameters: Any) -> Iterator[tuple[Any, ...]]:
        cursor = self._connection.execute(STATEMENTS[statement], parameters)
        while found := cursor.fetchmany(BATCH):
            yield from found

    def run(self, statement: str, parameters: dict[str, Any]) -> None:
        self._connection.execute(STATEMENTS[statement], parameters)

    def run_one(self, statement: str, parameters: dict[str, Any]) -> None:
        hit = self._connection.execute(STATEMENTS[statement], parameters).rowcount
        if hit != 1:
            raise AssertionError(f"{statement} changed {hit} rows instead of one")

    def apply(self, step: Step) -> None:
        super().apply(step)
        kind, number = step.event.kind, step.event.number
        if step.item.status == READY and kind in ("claimable", "edited") and number > FIRST_CLAIMABLE:
            self.item_returned = True
        # A session whose ticket was closed or got an offer is notified by the commit itself.
        sessions = {ticket.session for ticket in step.closed}
        if kind == "offered" and step.event.session is not None:
            sessions.add(step.event.session)
        for session in sorted(sessions):
            self.run("notify_session", {"session": session})

    def lock_items(self, items: Iterable[str]) -> None:
        ids = list(items)
        if ids and self.writable:
            self.all("lock_items", ids=ids)

    def lock(self, statement: str, /, **parameters: str) -> None:
        self.one(statement, **parameters)

    def lock_session(self, session: str) -> None:
        if self.writable:
            self.one("lock_session", id=session)

    def lock_item(self, item: str) -> None:
        if self.writable:
            row = self.one("lock_item", id=item)
            assert row is not None
            self.now = row[0]

    def ahead_of(self, claimant: Claimant, item: Item, most: int) -> int:
        row = self.one(
            "ahead",
            agent=claimant.agent.name,
            session=claimant.session.id,
            item=item.id,
            priority=item.priority,
            most=most,
            now=self.now,
        )
        return 0 if row is None else int(row[0])

    def claim(self, item: str, *, session: str, agent: str | None, ttl_seconds: float | None) -> Grant:
        def call(keeps_offer: bool) -> dict[str, Any]:
            sent = (item, session, agent, ttl_seconds, False, None, settings_row(self.settings), None, keeps_offer)
            row = self._connection.execute(CLAIM, texts(sent)).fetchone()
            assert row is not None
            found: dict[str, Any] = row[0]
            return found

        answer = claim_past_dead_owners(call, lambda: self.reap(self.dead_owners()))
        self.changed = True
        if "no" in answer:
            asked: dict[str, Any] = {"session": session, "agent": agent, "ttl_seconds": ttl_seconds, "item_id": item}
            self.refuse(answers.refusal(answer, settings=self.settings, **asked))
        return answers.grant(answer)

    def reap(self, dead: Sequence[tuple[str, Owner]]) -> bool:
        if not dead:
            return False
        verdicts = json_text.dumps([(session, owner.as_dict()) for session, owner in dead])
        self.one("reap", dead=verdicts, limit=self.settings.sweep_batch, settings=settings_row(self.settings))
        self.changed = self.freed = self.item_returned = True
        return True

    def number_events_past(self, number: int) -> None:
        if number:
            self.run("number_events_past", {"number": number})

    def _in_wire_format(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row of `requests` with its answer in wire format, which every store can read. The SQL functions keep their
        answers in another format, named by `shape`."""
        *columns, answer, at, shape = row
        if shape is not None:
            value = answers.SHAPES[shape](rows.loads(answer), self.settings)
            answer = json_text.dumps(wire.encode(value))
        return (*columns, answer, at)
