"""The PostgreSQL store: many machines and concurrent writers, with row locks.

Each verb of the claim path is one function call, one round trip, one transaction: `claim_path` and functions/. The
other verbs load rows, call the rules and write steps, as on SQLite: `dibs.store.sql`. Here are the transactions of
both, retries, notifications, and the verbs about a whole board.
"""

from __future__ import annotations

import os
import threading
import time

import psycopg

from dibs.errors import DibsError, Invalid, StoreUnavailable, StoreUnusable
from dibs.randomness import sleep_before_retry
from dibs.store.contract import LINES, Store
from dibs.store.postgres import direct_calls
from dibs.store.postgres.calls import settings_row, texts
from dibs.store.postgres.claim_path import ClaimPath
from dibs.store.postgres.connections import (
    CONFLICTS,
    CONNECTIONS_MAX,
    RETRY_SECONDS,
    Pool,
    explain,
    is_disconnected,
    is_not_listening,
)
from dibs.store.postgres.lane_hints import LaneHints
from dibs.store.postgres.migrating import migrate
from dibs.store.postgres.notify import Notifier, PollingWatch, watch
from dibs.store.postgres.pinging import Pinging
from dibs.store.postgres.queries import STATEMENTS
from dibs.store.postgres.transaction import PostgresTransaction
from dibs.store.sql import archive, requests, rows
from dibs.store.sql.dispatch import SqlVerbs
from dibs.store.sql.transaction import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import Prune, Request, Session, Sweep
    from dibs.store.contract import Watch
    from dibs.store.postgres.connections import Connection
    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")

#: Settings without which a crash can lose an acknowledged write, and how to turn each on.
DURABLE = {
    "synchronous_commit": "turn it on for the database or the role: ALTER ... SET synchronous_commit = on",
    "fsync": "turn it on in postgresql.conf, and reload the server",
}
#: How many connections separate readers use at most; the others are for writes.
READERS_MAX = CONNECTIONS_MAX // 2
TRIES_MAX = 50
#: How long an import may wait for its next record.
LOAD_IDLE_SECONDS = 600.0


class Attempt:
    """One attempt of a transaction. Once `may_have_committed`, a lost connection leaves the outcome unknown."""

    may_have_committed = False


class PostgresStore(ClaimPath, SqlVerbs, Store):
    backup_format = LINES

    def __init__(
        self, url: str, settings: Settings, *, create: bool = False, look_seconds: float = 1.0, lean: bool = False
    ) -> None:
        """`look_seconds`: how long `next` may use its hints before it searches all lanes in full.
        `lean`: do not retry while no server listens; the caller retries."""
        self.url = url
        self.settings = settings
        self._lean = lean
        #: The number of retries of transactions after a conflict (a deadlock, for example), and after a disconnect.
        self.conflicts = self.reconnects = 0
        self._pool = Pool(url, settings.lock_wait_seconds)
        self._pinging = Pinging(url)
        self._notifier = Notifier(self._pool)
        self._hints = LaneHints(look_seconds)
        self._settings_row = settings_row(settings)
        self._readers: threading.BoundedSemaphore | None = None
        try:
            self._check_connection()
        except StoreUnusable as error:
            if not create or error.facts.get("schema") != 0:
                raise
            migrate(url)
            self._check_connection()

    def call(self, function: str, *parameters: Any, repeatable: bool) -> dict[str, Any]:
        """Call an SQL function: one round trip, one transaction."""
        given = texts(parameters)

        def work(connection: Connection, attempt: Attempt) -> dict[str, Any]:
            attempt.may_have_committed = True
            return direct_calls.call(connection, function, given)

        return self._with_retries(work, repeatable)

    def write(
        self,
        work: Callable[[Transaction], T],
        request: Request | None = None,
        kind: type[Value] | None = None,
        *,
        tries_max: int = TRIES_MAX,
        idle_seconds: float | None = None,
    ) -> T:
        """Run `work` in one durable transaction. With a request, its answer (values of `kind`) is kept and repeated."""
        refusal: DibsError | None = None
        changed = item_returned = freed = False

        def transact(connection: Connection, attempt: Attempt) -> T:
            nonlocal refusal, changed, item_returned, freed
            refusal = None
            try:
                t = PostgresTransaction(connection, self.settings, writable=True, idle_seconds=idle_seconds)
                if request is not None:
                    t.one("lock_request", actor=request.actor, id=request.id)
                known: T | None = None if request is None else requests.answered(t, request, kind)
                if known is not None:
                    # COMMIT, not ROLLBACK: COMMIT waits until the synchronous standbys have the first commit.
                    connection.execute("COMMIT")
                    return known
                answer: Any = None
                try:
                    answer = work(t)
                except Refused as refused:
                    refusal = refused.refusal
                if request is not None and refusal is None and answer != ():
                    requests.keep(t, request, answer)
                attempt.may_have_committed = True
                connection.execute("COMMIT")
                changed, item_returned, freed = t.changed, t.item_returned, t.freed
                result: T = answer
                return result
            except (psycopg.Error, DibsError):
                _roll_back(connection)
                raise

        answer = self._with_retries(transact, request is not None, tries_max)
        if item_returned:
            self._hints.forget()
        if freed and self.on_freed is not None:
            self.on_freed()
        if changed:
            self._notifier.notify(urgent=True)
        if refusal is not None:
            raise refusal
        return answer

    def separate_readers(self) -> None:
        self._readers = threading.BoundedSemaphore(READERS_MAX)
        self._notifier.send_in_background()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one snapshot, without locks."""
        if self._readers is None:
            return self._read(work)
        seconds = self.settings.lock_wait_seconds
        if not self._readers.acquire(timeout=seconds):
            text = f"{READERS_MAX} other threads have been reading the board for over {seconds:g}s; try again"
            raise StoreUnavailable(text, retry_after_seconds=RETRY_SECONDS)
        try:
            return self._read(work)
        finally:
            self._readers.release()

    def _read(self, work: Callable[[Transaction], T]) -> T:
        def look(connection: Connection, attempt: Attempt) -> T:
            try:
                answer = work(PostgresTransaction(connection, self.settings, writable=False))
            except (psycopg.Error, DibsError):
                _roll_back(connection)
                raise
            # After a ROLLBACK psycopg forgets what the connection has prepared.
            _end(connection, "COMMIT")
            return answer

        return self._with_retries(look, repeatable=True)

    def feed_end(self) -> int:
        def look(connection: Connection, attempt: Attempt) -> int:
            row = connection.execute(STATEMENTS["feed_end"]).fetchone()
            assert row is not None
            return int(row[0])

        return self._with_retries(look, repeatable=True)

    def find_session(self, id: str) -> Session | None:
        """In one round trip, and without a turn among the readers: a server asks it for every request of an agent."""

        def look(connection: Connection, attempt: Attempt) -> tuple[Any, ...] | None:
            return connection.execute(STATEMENTS["session_by_id"], {"id": id}).fetchone()

        row = self._with_retries(look, repeatable=True)
        return None if row is None else rows.session(row)

    # Waiting

    def notify(self, *, urgent: bool = False) -> None:
        if urgent and self.on_freed is not None:
            self.on_freed()
        self._notifier.notify(urgent=urgent)

    def watch(self, *, session: str | None = None) -> Watch:
        if self._pool.behind_pooler:
            return PollingWatch(self.feed_end)
        return watch(self.url, session, self.feed_end)

    # Whole boards

    def sweep(self, *, limit: int) -> Sweep:
        from dibs.store.sql.figures import BATCH

        swept = self._sweep(self.read(lambda t: t.dead_owners()), limit)
        self.catch_up(BATCH)
        return swept

    def prune(self, *, older_than_seconds: float, limit: int | None, dry_run: bool = False) -> Prune:
        if limit is None or dry_run:
            return self.read(lambda t: archive.count_prunable(t, older_than_seconds))
        return self.write(lambda t: archive.prune(t, older_than_seconds, limit))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return self._of_snapshot(archive.export)

    def histories(self) -> Iterator[tuple[str, Any]]:
        from dibs.store.sql import histories

        return self._of_snapshot(histories.histories)

    def _of_snapshot(self, read: Callable[[Transaction], Iterator[tuple[str, Any]]]) -> Iterator[tuple[str, Any]]:
        try:
            with self._pool.connection() as connection:
                try:
                    yield from read(PostgresTransaction(connection, self.settings, writable=False))
                finally:
                    if not connection.closed:
                        connection.execute("ROLLBACK")
        except psycopg.Error as error:
            raise explain(error) from error

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        def load(t: Transaction) -> int:
            t.run("lock_tables", {})
            count = archive.load(t, records)
            t.one("advance_sequences")
            return count

        # One try: the records can be read only once.
        return self.write(load, tries_max=1, idle_seconds=LOAD_IDLE_SECONDS)

    def backup(self, path: str) -> None:
        from dibs.store.sql import backup_lines

        backup_lines.write(path, self._of_snapshot(archive.export_for_backup))

    def restore(self, path: str, *, actor: str) -> int:
        from dibs.store.sql import backup_lines
        from dibs.system import progress

        if not os.path.isfile(path):
            raise Invalid(f"there is no backup at {path}", field="path")
        count = backup_lines.require_complete(path)

        def restore(t: Transaction) -> int:
            # Under a lock of every table: the restored board has to continue from the last token that was given.
            t.run("lock_tables", {})
            given = archive.highest(t)
            t.run("delete_all", {})
            records = progress.counted(backup_lines.read(path), "restored", lambda: count)
            archive.load_records(t, archive.restorable(records))
            t.one("advance_sequences")
            return archive.retire_tokens(t, given, actor)

        return self.write(restore, idle_seconds=LOAD_IDLE_SECONDS)

    def check(self) -> tuple[str, ...]:
        def check(t: Transaction) -> tuple[str, ...]:
            found = [f"{item} is in progress and has no claim" for (item,) in t.all("without_claim")]
            found += [f"{item} is {status} and has a claim" for item, status in t.all("with_stray_claim")]
            found += [f"no sweep would find the expiry of the claim of {item}" for (item,) in t.all("overlooked_claim")]
            for setting, advice in DURABLE.items():
                if t.one("setting", name=setting) == ("off",):
                    found.append(f"{setting} is off, so a crash can lose acknowledged writes; {advice}")
            return tuple(found)

        return self.read(check)

    def ping(self) -> None:
        self._pinging.ping()

    def close(self) -> None:
        self._pinging.close()
        self._notifier.close()
        self._pool.close()

    def _check_connection(self) -> None:
        """Connect once, so that a wrong URL or schema is reported here and not by the first verb."""
        self._with_retries(lambda connection, attempt: None, repeatable=True)

    def _with_retries(
        self, work: Callable[[Connection, Attempt], T], repeatable: bool, tries_max: int = TRIES_MAX
    ) -> T:
        """Run `work`; retry after a conflict, which rolled it back, and after a disconnect if it is repeatable or
        cannot have committed. Once an attempt may have committed, the outcome of a failure is unknown."""
        end = time.monotonic() + self.settings.lock_wait_seconds
        tries, is_unknown, attempt = 0, False, Attempt()
        while True:
            attempt.may_have_committed = False
            try:
                return self._pool.run(lambda connection: work(connection, attempt))
            except psycopg.Error as error:
                tries += 1
                # Two clients inserted the same row at once: a retry of the second one finds it.
                conflict = isinstance(error, (*CONFLICTS, psycopg.errors.UniqueViolation))
                lost = not conflict and is_disconnected(error)
                is_unknown = is_unknown or (lost and attempt.may_have_committed)
                gives_up = self._lean and not is_unknown and is_not_listening(error)
                # A server's client tries again. Without a ping, a retry may reach the server that took over.
                gives_up |= self._pinging.is_read_only and isinstance(error, psycopg.errors.ReadOnlySqlTransaction)
                over = time.monotonic() >= end or tries >= tries_max or gives_up
                if over or not (conflict or lost) or (is_unknown and not repeatable):
                    raise (_unknown(error) if is_unknown else explain(error)) from error
                self.conflicts += conflict
                self.reconnects += lost
            except StoreUnavailable as error:
                if is_unknown:
                    raise _unknown(error) from error
                raise
            sleep_before_retry(tries)


def _roll_back(connection: Connection) -> None:
    _end(connection, "ROLLBACK")


def _end(connection: Connection, statement: str) -> None:
    """End the transaction, if one is open. (After an interrupt the pool closes the connection instead.)"""
    if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        connection.execute(statement)


def _unknown(error: Exception) -> StoreUnavailable:
    text = " ".join(str(error).split())
    return StoreUnavailable(
        f"the connection broke before the answer arrived, so the outcome is unknown ({text});"
        " check the board, or use a request id, which makes a retry safe",
        outcome="unknown",
        retry_after_seconds=RETRY_SECONDS,
    )
