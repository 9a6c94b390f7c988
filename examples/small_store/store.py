"""A small store: the whole board is one file, and every write replaces that file.

A write takes a lock, reads the file into memory, runs one verb on it, and renames a complete new file over the old one.
A read needs no lock, because a file that was opened stays as it was. The verbs themselves are dibs's own: this store
supplies the transactions around them, the watch, and the verbs about a whole board.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeVar

import apsw

from dibs.config import Settings
from dibs.errors import DibsError, Invalid, StoreUnusable
from dibs.model import Prune, Request
from dibs.store.contract import LINES, Store, Watch
from dibs.store.sql import archive, requests
from dibs.store.sql.transaction import Refused, Transaction
from dibs.store.sqlite import backups, database, schema
from dibs.store.sqlite.engine import system_clock
from dibs.store.sqlite.store import SqliteVerbs
from dibs.store.sqlite.transaction import SqliteTransaction
from dibs.system import durable
from dibs.text import record_lines
from dibs.value import Value

T = TypeVar("T")
Work = Callable[[Transaction], T]
POLL_SECONDS = 0.02


class SmallStore(SqliteVerbs, Store):
    #: What `restore` reads: other files are converted by the board.
    backup_format = LINES

    def __init__(self, path: str, settings: Settings, clock: Callable[[], int] = system_clock) -> None:
        self.path, self.settings, self.clock = path, settings, clock

    # Every verb is one call of `write` or `read`.

    def write(self, work: Work[T], request: Request | None = None, kind: type[Value] | None = None) -> T:
        """Run `work` in one transaction. With a request, its answer (values of `kind`) is kept and repeated."""
        refusal: DibsError | None = None
        with self._lock():
            connection = self._load()
            t = self._transaction(connection, writable=True)
            answer: Any = requests.answered(t, request, kind) if request else None
            if answer is None:
                try:
                    answer = work(t)
                    if request and answer != ():
                        requests.keep(t, request, answer)
                except Refused as refused:
                    # What the verb found overdue is recorded even if the verb itself is refused.
                    refusal = refused.refusal
            # A statement that is not finished has not counted its changes yet.
            t.close()
            if connection.total_changes():
                self._replace(connection)
        if t.freed and self.on_freed:
            self.on_freed()
        if refusal:
            raise refusal
        return answer  # type: ignore[no-any-return]

    def read(self, work: Work[T]) -> T:
        return work(self._transaction(self._load()))

    def watch(self, *, session: str | None = None) -> Watch:
        return FileWatch(self.path)

    def close(self) -> None:
        """Nothing stays open between two verbs."""

    # Whole boards

    def prune(self, *, older_than_seconds: float, limit: int | None, dry_run: bool = False) -> Prune:
        if limit is None or dry_run:
            return self.read(lambda t: archive.count_prunable(t, older_than_seconds))
        return self.write(lambda t: archive.prune(t, older_than_seconds, limit))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield from archive.export(self._transaction(self._load()))

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        return self.write(lambda t: archive.load(t, records))

    def backup(self, path: str) -> None:
        """A backup is the export, a record a line: restoring one runs no code that a stranger put into it."""
        try:
            with durable.NewFile(path) as new, open(new, "wb") as file:
                file.writelines(record_lines.backup(self.export()))
        except FileExistsError:
            raise Invalid(f"{path} exists already; a backup does not overwrite it", field="path") from None

    def restore(self, path: str, *, actor: str) -> int:
        try:
            with open(path, "rb") as file:
                records = list(record_lines.read(file))
        except FileNotFoundError:
            raise Invalid(f"there is no backup at {path}", field="path") from None
        except Invalid as error:
            raise StoreUnusable(f"{path} cannot be restored: {error}", path=path) from error

        with self._lock():
            before, connection = self._transaction(self._load()), _empty_board()
            t = self._transaction(connection, writable=True)
            archive.load(t, records)
            # A revoked key stays revoked, webhooks stay, and tokens go on from the highest that this board gave.
            for statement, row in backups.own_rows(before):
                t.run(statement, row)
            concerned = archive.retire_tokens(t, archive.highest(before), actor)
            self._replace(connection)
        return concerned

    def check(self) -> tuple[str, ...]:
        connection = self._load()
        damage = [str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        return (*damage, *schema.differences(connection, database.SCHEMA_VERSION))

    # The file

    def _lock(self) -> IO[str]:
        """Exclude other writers, in this process and in others, until the file is closed."""
        lock = open(f"{self.path}.lock", "w", encoding="ascii")  # noqa: SIM115 - the caller closes it
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def _load(self) -> apsw.Connection:
        """The board, as a database in memory."""
        try:
            with open(self.path, "rb") as file:
                found = file.read()
        except FileNotFoundError:
            return _empty_board()
        connection = apsw.Connection(":memory:")
        connection.deserialize("main", found)
        return connection

    def _transaction(self, connection: apsw.Connection, *, writable: bool = False) -> SqliteTransaction:
        return SqliteTransaction(connection.cursor(), self.clock(), self.settings, writable=writable)

    def _replace(self, connection: apsw.Connection) -> None:
        """Durable before it is seen: the new file is synced, renamed over the old one, and so is the folder."""
        new = f"{self.path}.new"
        with open(new, "wb") as file:
            file.write(connection.serialize("main"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)
        durable.sync_folder(os.path.dirname(os.path.abspath(self.path)))


def _empty_board() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    for number in range(1, database.SCHEMA_VERSION + 1):
        connection.execute(database.migration(number)).fetchall()
    return connection


class FileWatch(Watch):
    """Looks whether the file was replaced, fifty times a second."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = self._look()

    def wait(self, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        while (found := self._look()) == self._seen:
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(POLL_SECONDS, left))
        self._seen = found
        return True

    def close(self) -> None:
        """A watch holds nothing."""

    def _look(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns
