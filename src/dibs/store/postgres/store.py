"""The PostgreSQL store: many machines, many writers at a time, each row locked by who decides about it.

The claim path is one function call, one round trip, one transaction a verb: `claim_path` and functions/. What people
do is loaded, decided by the rules and written, as on SQLite: `dibs.store.tables`. Here is what carries both:
connections, trying again, and telling those who wait.
"""

from __future__ import annotations

import os
import threading
import time

import psycopg

from dibs.errors import DibsError, Invalid, StoreUnavailable, StoreUnusable
from dibs.store.contract import Store
from dibs.store.postgres.claim_path import ClaimPath
from dibs.store.postgres.connecting import (
    AGAIN,
    CONNECTIONS_MAX,
    RETRY_SECONDS,
    Pool,
    explain,
    is_away,
    is_nobody_there,
    pause,
)
from dibs.store.postgres.lanes import Lanes
from dibs.store.postgres.migrating import migrate
from dibs.store.postgres.queries import STATEMENTS
from dibs.store.postgres.transaction import PostgresTransaction
from dibs.store.postgres.wakeup import ListeningWatch, PollingWatch, Teller
from dibs.store.tables import archive, requests
from dibs.store.tables.keys import Keys
from dibs.store.tables.reading import Reading
from dibs.store.tables.tickets import Tickets
from dibs.store.tables.transaction import Refused
from dibs.store.tables.upkeep import Upkeep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import Prune, Request
    from dibs.store.contract import Watch
    from dibs.store.postgres.connecting import Connection
    from dibs.store.tables.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")

#: Settings without which an answer is no promise, and what turns each on.
DURABLE = {
    "synchronous_commit": "turn it on for the database or the role: ALTER ... SET synchronous_commit = on",
    "fsync": "turn it on in postgresql.conf, and reload the server",
}
#: So many of the connections are used by reads at once, where readers are separated: the others are for writes.
READERS_MAX = CONNECTIONS_MAX // 2
#: What fails this often does not fail by coincidence.
AGAIN_MAX = 50
#: How long the records of a board that is being loaded may keep it waiting.
LOAD_IDLE_SECONDS = 600.0


class Attempt:
    """One attempt at a piece of work: from `unsure` on, a broken connection leaves it unknown whether it was done."""

    unsure = False


class PostgresStore(ClaimPath, Tickets, Upkeep, Reading, Keys, Store):
    def __init__(
        self, url: str, settings: Settings, *, create: bool = False, look_seconds: float = 1.0, lean: bool = False
    ) -> None:
        """`look_seconds`: how long `next` may go by what it remembers of the lanes before it looks at everything.
        `lean`: for who asks again by itself where nobody listens."""
        self.url = url
        self.settings = settings
        self._lean = lean
        #: How often work was done again because of others (a deadlock, say), and because a connection was lost.
        self.conflicts = self.reconnects = 0
        self._pool = Pool(url, settings.lock_wait_seconds)
        self._teller = Teller(self._pool)
        self._lanes = Lanes(look_seconds)
        self._settings_row = _settings_row(settings)
        self._readers: threading.BoundedSemaphore | None = None
        try:
            self._hello()
        except StoreUnusable as error:
            if not create or error.facts.get("schema") != 0:
                raise
            migrate(url)
            self._hello()

    def call(self, function: str, *parameters: Any, repeatable: bool) -> dict[str, Any]:
        """Call a function of the board: one round trip, one transaction."""
        texts = [None if value is None else _text(value) for value in parameters]

        def work(connection: Connection, attempt: Attempt) -> dict[str, Any]:
            attempt.unsure = True
            row = connection.execute(function, texts).fetchone()
            assert row is not None
            answer: dict[str, Any] = row[0]
            return answer

        return self._done(work, repeatable)

    def write(
        self,
        work: Callable[[Transaction], T],
        request: Request | None = None,
        kind: type[Value] | None = None,
        *,
        tries_max: int = AGAIN_MAX,
        idle_seconds: float | None = None,
    ) -> T:
        """Do `work` in one durable transaction. With a request, once: its answer, of values of `kind`, is kept."""
        refusal: DibsError | None = None
        changed = came_back = freed = False

        def transact(connection: Connection, attempt: Attempt) -> T:
            nonlocal refusal, changed, came_back, freed
            refusal = None
            try:
                t = PostgresTransaction(connection, self.settings, writable=True, idle_seconds=idle_seconds)
                if request is not None:
                    t.one("lock_request", actor=request.actor, id=request.id)
                known: T | None = None if request is None else requests.answered(t, request, kind)
                if known is not None:
                    # Committed, not given up: what was done then is then where commits have to be.
                    connection.execute("COMMIT")
                    return known
                answer: Any = None
                try:
                    answer = work(t)
                except Refused as refused:
                    refusal = refused.refusal
                if request is not None and refusal is None and answer != ():
                    requests.keep(t, request, answer)
                attempt.unsure = True
                connection.execute("COMMIT")
                changed, came_back, freed = t.changed, t.came_back, t.freed
                result: T = answer
                return result
            except (psycopg.Error, DibsError):
                _roll_back(connection)
                raise

        answer = self._done(transact, request is not None, tries_max)
        if came_back:
            self._lanes.forget()
        if freed and self.on_freed is not None:
            self.on_freed()
        if changed:
            self._teller.tell(urgent=True)
        if refusal is not None:
            raise refusal
        return answer

    def separate_readers(self) -> None:
        self._readers = threading.BoundedSemaphore(READERS_MAX)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` on one snapshot, without any lock."""
        if self._readers is None:
            return self._read(work)
        seconds = self.settings.lock_wait_seconds
        if not self._readers.acquire(timeout=seconds):
            text = f"{READERS_MAX} others have been reading the board for over {seconds:g}s"
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
            _roll_back(connection)
            return answer

        return self._done(look, repeatable=True)

    def feed_end(self) -> int:
        def look(connection: Connection, attempt: Attempt) -> int:
            row = connection.execute(STATEMENTS["feed_end"]).fetchone()
            assert row is not None
            return int(row[0])

        return self._done(look, repeatable=True)

    # Waiting

    def tell(self, *, urgent: bool = False) -> None:
        if urgent and self.on_freed is not None:
            self.on_freed()
        self._teller.tell(urgent=urgent)

    def watch(self, *, session: str | None = None) -> Watch:
        if self._pool.behind_pooler:
            return PollingWatch(self.feed_end)
        return ListeningWatch(self.url, session, self.feed_end)

    # Whole boards

    def prune(self, *, older_than_seconds: float, limit: int) -> Prune:
        return self.write(lambda t: archive.prune(t, older_than_seconds, limit))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        try:
            with self._pool.connection() as connection:
                try:
                    yield from archive.export(PostgresTransaction(connection, self.settings, writable=False))
                finally:
                    if not connection.closed:
                        connection.execute("ROLLBACK")
        except psycopg.Error as error:
            raise explain(error) from error

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        def load(t: Transaction) -> int:
            t.run("lock_tables", {})
            count = archive.load(t, records)
            t.one("number_on")
            return count

        # What was read of the records cannot be read again.
        return self.write(load, tries_max=1, idle_seconds=LOAD_IDLE_SECONDS)

    def backup(self, path: str) -> None:
        from dibs.store.postgres import backups

        backups.write(path, self.export())

    def restore(self, path: str, *, actor: str) -> int:
        from dibs.store.postgres import backups

        if not os.path.isfile(path):
            raise Invalid(f"there is no backup at {path}", field="path")
        backups.refuse_foreign(path)

        def restore(t: Transaction) -> int:
            # Emptied under a lock on every table: what was given last has to be what is moved on from.
            t.run("lock_tables", {})
            given = archive.highest(t)
            t.run("empty", {})
            archive.load(t, backups.read(path))
            t.one("number_on")
            return archive.move_on(t, given, actor)

        return self.write(restore, idle_seconds=LOAD_IDLE_SECONDS)

    def check(self) -> tuple[str, ...]:
        def check(t: Transaction) -> tuple[str, ...]:
            found = [f"{item} is in progress and has no claim" for (item,) in t.all("without_claim")]
            found += [f"{item} is {status} and has a claim" for item, status in t.all("with_stray_claim")]
            found += [f"the claim of {item} would end unnoticed" for (item,) in t.all("overlooked_claim")]
            for setting, advice in DURABLE.items():
                if t.one("setting", name=setting) == ("off",):
                    found.append(f"{setting} is off, so a crash can lose what was acknowledged; {advice}")
            return tuple(found)

        return self.read(check)

    def close(self) -> None:
        self._teller.close()
        self._pool.close()

    def _hello(self) -> None:
        """A first connection, so that a wrong URL or schema is told here and not by the first verb."""
        self._done(lambda connection, attempt: None, repeatable=True)

    def _done(self, work: Callable[[Connection, Attempt], T], repeatable: bool, tries_max: int = AGAIN_MAX) -> T:
        """Do it; again after a conflict, which has undone it, and after a lost connection if that cannot do it twice.

        Once an attempt may have been done, no failure of a later one says that nothing was.
        """
        end = time.monotonic() + self.settings.lock_wait_seconds
        tries, unsure, attempt = 0, False, Attempt()
        while True:
            attempt.unsure = False
            try:
                return self._pool.run(lambda connection: work(connection, attempt))
            except psycopg.Error as error:
                tries += 1
                # Two who add the same thing at once: the second sees it next time.
                conflict = isinstance(error, (*AGAIN, psycopg.errors.UniqueViolation))
                lost = not conflict and is_away(error)
                unsure = unsure or (lost and attempt.unsure)
                is_nowhere = self._lean and not unsure and is_nobody_there(error)
                over = time.monotonic() >= end or tries >= tries_max or is_nowhere
                if over or not (conflict or lost) or (unsure and not repeatable):
                    raise (_unknown(error) if unsure else explain(error)) from error
                self.conflicts += conflict
                self.reconnects += lost
            except StoreUnavailable as error:
                if unsure:
                    raise _unknown(error) from error
                raise
            pause(tries)


def _roll_back(connection: Connection) -> None:
    """End the transaction, if there is one. Not after an interrupt: such a connection is closed instead."""
    if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        connection.execute("ROLLBACK")


def _text(value: object) -> str:
    """A parameter as its text, whose type the statement says: cheaper than to have the library find one for each, and
    always the same prepared statement."""
    if isinstance(value, list):
        return "{" + ",".join("NULL" if one is None else _quoted(str(one)) for one in value) + "}"
    return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unknown(error: Exception) -> StoreUnavailable:
    text = " ".join(str(error).split())
    return StoreUnavailable(
        f"the connection broke before the answer came, so it is not known whether this was done ({text});"
        " look, or ask with a request id, which makes asking again safe",
        outcome="unknown",
        retry_after_seconds=RETRY_SECONDS,
    )


def _settings_row(settings: Settings) -> str:
    """The settings as the functions take them: a row of type `dibs.settings`."""
    names = (
        "ttl_seconds",
        "ttl_seconds_min",
        "ttl_seconds_max",
        "person_ttl_seconds",
        "person_ttl_seconds_max",
        "max_strikes",
        "accept_seconds",
        "retry_backoff_seconds",
        "retry_backoff_seconds_max",
        "request_kept_seconds",
        "activity_kept",
    )
    return f"({','.join(str(getattr(settings, name)) for name in names)})"
