"""The SQLite store: one file, any number of processes on one machine.

Each verb is one transaction of the engine: the fair lock, `BEGIN IMMEDIATE`, the clock, the rules, the writes, a
durable commit, the bell. `claim_path`, `sweep` and `store.sql` have most verbs; those about a whole board are here.
"""

from __future__ import annotations

import os

import apsw

from dibs.errors import StoreUnavailable, StoreUnusable
from dibs.model import Ended, Finished, Grant, Renewal
from dibs.store.contract import FULL, GONE, READ_ONLY, SQLITE, Store
from dibs.store.sql.dispatch import SqlVerbs, past_dead_owners, write_verb
from dibs.store.sqlite.database import SCHEMA_VERSION, damaged, explain
from dibs.store.sqlite.engine import Engine, system_clock
from dibs.store.sqlite.group_commit import PendingWrite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from dibs.config import Settings
    from dibs.model import Prune, Request, Sweep
    from dibs.store.contract import SharedCommits, Watch
    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")


_CLAIM_PATH = "dibs.store.sqlite.claim_path"


class SqliteVerbs(SqlVerbs):
    """The verbs that run in a transaction of SQLite: of a SQLite store and of a vault."""

    claim = past_dead_owners(write_verb(_CLAIM_PATH, "claim", Grant))
    recover = past_dead_owners(write_verb(_CLAIM_PATH, "recover", Grant))
    next = past_dead_owners(write_verb(_CLAIM_PATH, "next_", Grant))
    heartbeat = write_verb(_CLAIM_PATH, "heartbeat")
    renew = write_verb(_CLAIM_PATH, "renew")
    progress = write_verb(_CLAIM_PATH, "progress", Renewal)
    release = write_verb(_CLAIM_PATH, "release", Ended)
    done = write_verb(_CLAIM_PATH, "done", Ended)
    done_many = write_verb(_CLAIM_PATH, "done_many", Finished)
    fail = write_verb(_CLAIM_PATH, "fail", Ended)
    submit = write_verb(_CLAIM_PATH, "submit", Ended)

    def sweep(self, *, limit: int) -> Sweep:
        from dibs.store.sqlite.sweep import sweep

        store: Any = self
        dead = store.read(lambda t: t.dead_owners())
        swept: Sweep = store.write(lambda t: sweep(t, dead=dead, limit=limit))
        return swept


class SqliteStore(SqliteVerbs, Store):
    backup_format = SQLITE

    def __init__(
        self,
        path: str,
        settings: Settings,
        *,
        create: bool = False,
        lean: bool = False,
        clock: Callable[[], int] = system_clock,
        engine: Engine | None = None,
        more_tables: tuple[str, ...] = (),
    ) -> None:
        """`lean`: the process runs a single command. A store that contains this one, such as a vault, passes its own
        `engine`, and in `more_tables` the statements that create its own tables."""
        self.settings = settings
        self.more_tables = more_tables
        self.engine = engine or Engine(path, settings, clock)
        self.engine.checkpoints_on_close = not lean
        self.engine.open(create=create)

    @property
    def path(self) -> str:
        return self.engine.path

    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T:
        """Run `work` in one durable transaction. With a request, its answer (values of `kind`) is kept and repeated."""
        write = PendingWrite(work, request, kind)
        self.engine.write(write)
        self.tell_freed(write)
        result: T = write.result()
        return result

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self.engine.read(work)

    def tell_freed(self, write: PendingWrite) -> None:
        if write.freed and self.on_freed is not None:
            self.on_freed()

    def separate_readers(self) -> None:
        self.engine.separate_readers()

    def shared_commits(self) -> SharedCommits:
        from dibs.store.sqlite.shared_commits import SqliteSharedCommits

        return SqliteSharedCommits(self)

    def watch(self, *, session: str | None = None) -> Watch:
        # One bell for all sessions: a needless wake-up is cheap here.
        from dibs.store.sqlite.bell import BellWatch

        return BellWatch(self.engine.bell, self._another_connection)

    def checkpoint_on_close(self) -> None:
        self.engine.checkpoints_on_close = True

    def close(self) -> None:
        self.engine.close()

    def _another_connection(self) -> apsw.Connection:
        """A connection besides the engine's, to the board that is at the path now."""

        def connect() -> apsw.Connection:
            self.engine.connection()
            return self.engine.connect()

        return self.engine.call(connect)

    # Whole boards. The modules are imported here, so that a claim does not pay for them.

    def prune(self, *, older_than_seconds: float, limit: int | None, dry_run: bool = False) -> Prune:
        from dibs.store.sql import archive

        if limit is None or dry_run:
            return self.read(lambda t: archive.count_prunable(t, older_than_seconds))
        return self.write(lambda t: archive.prune(t, older_than_seconds, limit))

    def export(self) -> Iterator[tuple[str, dict[str, Any]]]:
        from dibs.store.sql import archive

        return self._of_snapshot(archive.export, must_be_sound=True)

    def histories(self) -> Iterator[tuple[str, Any]]:
        from dibs.store.sql import histories

        return self._of_snapshot(histories.histories)

    def _of_snapshot(
        self, read: Callable[[Transaction], Iterator[tuple[str, Any]]], *, must_be_sound: bool = False
    ) -> Iterator[tuple[str, Any]]:
        """`must_be_sound`: a damaged index would leave out rows, and nobody would notice."""
        from dibs.store.sqlite import damage
        from dibs.store.sqlite.transaction import SqliteTransaction

        # A connection of its own, because the caller may read slowly while others write.
        connection = self._another_connection()
        try:
            connection.execute("BEGIN")
            fault = damage.found_in(connection) if must_be_sound else None
            if fault is not None:
                raise damaged(fault, self.path)
            yield from read(SqliteTransaction(connection.cursor(), self.engine.clock(), self.settings))
        except apsw.Error as error:
            raise explain(error, self.path) from error
        finally:
            connection.close(True)

    def load(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        from dibs.store.sql import archive

        self.checkpoint_on_close()
        return self.write(lambda t: archive.load(t, records))

    def backup(self, path: str, leave_out: Sequence[str] = ()) -> None:
        """`leave_out`: tables of the store that contains this one."""
        from dibs.store.sqlite import backups

        self.checkpoint_on_close()
        source = self._another_connection()
        try:
            backups.backup(source, path, self.settings, leave_out)
        finally:
            source.close()

    def restore(self, path: str, *, actor: str) -> int:
        from dibs.store.sqlite import backups

        self.checkpoint_on_close()
        return backups.restore(self.engine, path, actor, self.more_tables)

    def check(self) -> tuple[str, ...]:
        from dibs.store.sqlite import damage, schema

        def check() -> tuple[str, ...]:
            connection = self.engine.connection()
            mode = connection.pragma("journal_mode")
            found = [f"the database is damaged: {fault.replace(';', ',')}" for fault in damage.faults(connection)]
            if mode != "wal":
                found.append(f"the journal mode is {mode}, not wal; dibs init sets it again and loses nothing")
            for what in schema.differences(connection, SCHEMA_VERSION, self.more_tables):
                what = f"the schema is not the one that dibs creates: it has {what}".replace(";", ",")
                found.append(f"{what}; dibs does not execute it: dibs copy into a new board leaves it behind")
            return tuple(found)

        return self.engine.call(check)

    def ping(self) -> None:
        from dibs.system import free_space

        self._require_file()
        try:
            self.due_seconds()
            is_read_only, shortage = free_space.is_read_only(self.path), free_space.shortage(self.path)
        except (FileNotFoundError, StoreUnavailable):
            self._require_file()  # it may have gone since
            raise
        if is_read_only:
            text = f"{self.path} cannot be written; dibs needs write access to it and its folder"
            raise StoreUnusable(text, path=self.path, problem=READ_ONLY)
        if shortage is not None:
            raise StoreUnavailable(shortage, path=self.path, problem=FULL)

    def _require_file(self) -> None:
        if not os.path.exists(self.path):
            raise StoreUnavailable(f"there is no board at {self.path}", path=self.path, problem=GONE)

    def free_bytes(self) -> int:
        from dibs.system import free_space

        return free_space.free_bytes(self.path)

    def remarks(self) -> tuple[tuple[str, str], ...]:
        from dibs.system import free_space

        shortage = free_space.shortage(self.path)
        return () if shortage is None else ((shortage, "free some space: on a full disk every write is refused"),)

    def notes(self) -> tuple[tuple[str, str], ...]:
        mode = os.stat(self.path).st_mode & 0o007
        if not mode:
            return ()
        from shlex import quote

        what = f"{self.path} can be {'changed' if mode & 0o002 else 'read'} by every user of this machine"
        return ((what, f"chmod o= {quote(self.path)}*"),)
