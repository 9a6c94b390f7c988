"""A transaction on SQLite. A write holds the lock of the whole board, so the methods that lock rows do nothing."""

from __future__ import annotations

import os

import apsw

from dibs.rules import refusals
from dibs.rules.decision import State
from dibs.store.sql import rows
from dibs.store.sql.queries import COLUMNS, SHARED, Statements, expand_for_sqlite
from dibs.store.sql.transaction import Transaction
from dibs.store.sqlite.database import damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from dibs.config import Settings
    from dibs.errors import StoreUnusable
    from dibs.model import Agent, Grant, Item, Owner, Session
    from dibs.rules.claiming import Claimant

#: The body and the payload of an item go into a table of their own if they have more characters: SQLite writes all of a
#: row again when its length changes, as it does with every status.
LONG_TEXTS_MIN = 2000
STATEMENTS = Statements(expand_for_sqlite, os.path.dirname(__file__), SHARED)


class SqliteTransaction(Transaction):
    row_errors = (apsw.ConstraintError,)

    def __init__(self, cursor: apsw.Cursor, now: int, settings: Settings, *, writable: bool = False) -> None:
        self.now = now
        self.settings = settings
        self.writable = writable
        self._cursor = cursor
        self._cursors = [cursor]

    @property
    def connection(self) -> apsw.Connection:
        return self._cursor.connection

    def one(self, statement: str, /, **parameters: Any) -> tuple[Any, ...] | None:
        try:
            row: tuple[Any, ...] | None = self._cursor.execute(STATEMENTS[statement], parameters).fetchone()
        except UnicodeDecodeError as error:
            raise self._damaged(error) from error
        return row

    def all(self, statement: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        return self.fetch_all(STATEMENTS[statement], parameters)

    def fetch_all(self, sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        try:
            found: list[tuple[Any, ...]] = self._cursor.execute(sql, parameters).fetchall()
        except UnicodeDecodeError as error:
            raise self._damaged(error) from error
        return found

    def each(self, statement: str, /, **parameters: Any) -> Iterator[tuple[Any, ...]]:
        # A cursor of its own, because other statements run in between.
        cursor = self._cursor.connection.cursor()
        self._cursors.append(cursor)
        return self._rows(cursor.execute(STATEMENTS[statement], parameters))

    stream = each

    def state(self, item: str) -> State:
        row = self.one("state", id=item)
        if row is None:
            raise refusals.item_not_found(item)
        found, claim, run = rows.item_with_claim_and_run(row[:-1])
        return State(
            item=found,
            claim=claim,
            run=run,
            blockers=self.blockers_of(item) if found.depends_on else (),
            tickets=tuple(rows.ticket(one) for one in self.all("open_tickets", item=item)) if row[-1] else (),
        )

    def session_and_agent(self, session: str) -> tuple[Session, Agent]:
        row = self.one("session_and_agent", id=session)
        if row is None:
            return super().session_and_agent(session)
        after_session = len(COLUMNS["session"])
        return refusals.live_session(session, rows.session(row[:after_session])), rows.agent(row[after_session:])

    def close(self) -> None:
        """Close all cursors: a result that was not read to its end would pin its snapshot."""
        for cursor in self._cursors:
            cursor.close(True)
        self._cursors.clear()

    def _rows(self, cursor: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from cursor
        except UnicodeDecodeError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: UnicodeDecodeError) -> StoreUnusable:
        return damaged(f"a text in it is not UTF-8 ({error})", self._cursor.connection.filename)

    def run(self, statement: str, parameters: dict[str, Any]) -> None:
        self._cursor.execute(STATEMENTS[statement], parameters)

    def run_one(self, statement: str, parameters: dict[str, Any]) -> None:
        self._cursor.execute(STATEMENTS[statement], parameters)
        hit = self._cursor.connection.changes()
        if hit != 1:
            raise AssertionError(f"{statement} changed {hit} rows instead of one")

    def put_item(self, statement: str, item: Item) -> None:
        columns = rows.encode(item)
        if len(columns["body"]) + len(columns["payload"]) > LONG_TEXTS_MIN:
            self.run("put_long_texts", columns)
            columns.update(body="", payload="")
        elif statement == "rewrite_item":
            self.run("drop_long_texts", columns)
        self.run_one(statement, columns)

    def lock_items(self, items: Iterable[str]) -> None:
        pass

    def lock(self, statement: str, /, **parameters: str) -> None:
        pass

    def lock_session(self, session: str) -> None:
        pass

    def lock_item(self, item: str) -> None:
        pass

    def ahead_of(self, claimant: Claimant, item: Item, most: int) -> int:
        from dibs.store.sqlite import choose_next

        return choose_next.ahead_of(self, claimant, item, most)

    def claim(self, item: str, **asked: Any) -> Grant:
        from dibs.store.sqlite import claim_path

        return claim_path.claim(self, item, **asked)

    def reap(self, dead: Sequence[tuple[str, Owner]]) -> bool:
        from dibs.store.sqlite import sweep

        sweep.reap(self, dead, self.settings.sweep_batch)
        return bool(dead)

    def number_events_past(self, number: int) -> None:
        # AUTOINCREMENT continues after the highest id that ever existed.
        if number:
            self.run("insert_placeholder_event", {"id": number})
            self.run("delete_placeholder_event", {"id": number})
