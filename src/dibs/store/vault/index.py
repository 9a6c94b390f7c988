"""The index of a vault: a SQLite board in `.dibs` with tables about the files, and the transactions on it.

The index can be removed at any time and is then rebuilt from the files. An index that was copied together with the
folder is not trusted, because it was made for another folder.
"""

from __future__ import annotations

import os
import stat

from dibs.errors import StoreUnusable
from dibs.store.sql import rows
from dibs.store.sql.queries import Statements, expand_for_sqlite
from dibs.store.sqlite.transaction import SqliteTransaction
from dibs.store.vault.layout import HIDDEN, INDEX, SUFFIX, name_of
from dibs.store.vault.safe_fs import Stamp
from dibs.store.vault.scan import checksum_of
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    import apsw

    from dibs.config import Settings
    from dibs.model import Session
    from dibs.model.kinds import Instant
    from dibs.rules.decision import Step
    from dibs.store.sql.transaction import Transaction
    from dibs.store.vault.taskfile.run_annotations import Annotation

    T = TypeVar("T")

#: The statements about files; those about the board are in `store/sqlite/`.
STATEMENTS = Statements(expand_for_sqlite, os.path.dirname(__file__))
#: The tables and indexes of a vault, each called `vault_...`, in the order of creation.
_CREATED = ("files", "vacated", "foreign_claims", "place", "redo", "gone", "left_at")
TABLES = tuple(STATEMENTS[f"create_{name}"] for name in _CREATED)
#: The names of the tables: what a backup leaves out, since the files of another vault are others.
NAMES = ("vault_files", "vault_left", "vault_told", "vault_place", "vault_redo")
#: How long after a move an editor may still save to the old path. A later file there is a new one.
LATE_SECONDS = 60.0
#: In the meta of a session: it was started in another clone.
ELSEWHERE = "elsewhere"
#: When the claims of such a session expire, by the index: 9999-12-31. See `git.liveness`.
NEVER = 253_402_214_400_000
#: The stamp of a file that the next scan must read.
UNSEEN = Stamp((0, 0, 0, 0))


class Entry(Value):
    """A file as it was last seen. Without an `item` it is not a task, because of `problem`. An item with a `problem`
    has a file that cannot be read now; `remark` is about fields that were ignored."""

    path: str
    item: str | None
    stamp: Stamp
    problem: str | None = None
    remark: str | None = None
    gone_at: Instant | None = None

    @property
    def must_be_read(self) -> bool:
        """Whether to read the file again even if its stamp has not changed."""
        return self.problem is not None or self.remark is not None


class VaultTransaction(SqliteTransaction):
    def __init__(self, cursor: apsw.Cursor, now: int, settings: Settings, *, writable: bool = False) -> None:
        super().__init__(cursor, now, settings, writable=writable)
        #: The name of this clone, if the vault has a git remote.
        self.clone_name: str | None = None
        #: The steps of this transaction, in order: each is to be written into a file.
        self.steps: list[Step] = []
        #: Items whose files are to be written whatever their steps are.
        self.stale: set[str] = set()

    @property
    def has_clones(self) -> bool:  # type: ignore[override]
        return self.clone_name is not None

    def is_free_id(self, id: str) -> bool:
        """Whether neither an item has this id, nor a file that is not a task the name of its file."""
        if not super().is_free_id(id):
            return False
        return all(name_of(path) != id + SUFFIX for (path,) in self.query("files_that_are_no_tasks"))

    def apply(self, step: Step) -> None:
        super().apply(step)
        self.steps.append(step)

    def touch(self, session: Session) -> None:
        self.touch_session(session.id)

    def touch_session(self, session: str) -> None:
        """Mark the session as one of this clone, because it calls a verb here. A rebuilt index takes every session for
        one of another clone."""
        super().touch_session(session)
        self.query("session_is_here", session=session, now=self.now)
        self.query("claims_are_here", session=session, now=self.now, never=NEVER)

    def token_floor(self) -> int:
        """Every token up to this one may have been given, even if no item has it."""
        row = self.one("token_floor")
        assert row is not None
        return int(row[0])

    def annotations(self, item: str) -> list[Annotation]:
        """The annotations of the item's runs, oldest first."""
        from dibs.store.vault.taskfile.run_annotations import Annotation

        found = []
        for at, actor, text in self.query("annotations", item=item):
            values = rows.loads(text)
            token, made_at = values.pop("run"), values.pop("told_at", at)
            found.append(Annotation(token=token, actor=actor, at=made_at, values=values))
        return found

    def annotated_values(self, item: str) -> dict[int, dict[str, dict[str, Any]]]:
        """The values that the runs of the item have under annotated names, by the token of the run."""
        from dibs.store.vault.taskfile import run_annotations

        merged = run_annotations.merge(self.annotations(item))
        runs = ((token, self.run_of(item, token)) for token in merged)
        return {token: run_annotations.current(run, merged[token]) for token, run in runs if run is not None}

    def attempt(self, work: Callable[[], T]) -> T:
        """Run `work` in a savepoint, which is rolled back if it raises."""
        connection, before = self._cursor.connection, len(self.steps)
        connection.execute("SAVEPOINT attempt")
        try:
            result = work()
        except BaseException:
            del self.steps[before:]
            connection.execute("ROLLBACK TO attempt")
            connection.execute("RELEASE attempt")
            raise
        connection.execute("RELEASE attempt")
        return result

    # Files

    def query(self, statement: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement about files."""
        return self.fetch_all(STATEMENTS[statement], parameters)

    def entries(self) -> dict[str, Entry]:
        return {row[0]: _entry(row) for row in self.query("files")}

    def entry_of(self, item: str) -> Entry | None:
        row = self.query("file_of_item", item=item)
        return _entry(row[0]) if row else None

    def has_file_at(self, path: str) -> bool:
        return bool(self.query("file_at", path=path))

    def put_entry(self, entry: Entry) -> None:
        """Record the file of an item. The path of its previous file is kept for as long as a late save may come
        there."""
        if entry.item is not None:
            self.query("vacate", item=entry.item, path=entry.path, now=self.now)
            self.forget_vacated(entry.path)
            self.query("forget_vacated_before", before=self.now - int(LATE_SECONDS * 1000))
        inode, size, mtime_ns, ctime_ns = entry.stamp
        self.query(
            "put_file",
            path=entry.path,
            item=entry.item,
            inode=inode,
            size=size,
            mtime_ns=mtime_ns,
            ctime_ns=ctime_ns,
            problem=entry.problem,
            remark=entry.remark,
            gone_at=entry.gone_at,
            mark=0 if entry.stamp == UNSEEN else checksum_of(entry.path, entry.stamp),
        )

    def forget_entry(self, path: str) -> None:
        self.query("forget_foreign_claim", path=path)
        self.query("forget_file", path=path)

    def known_foreign_claim(self, item: str) -> str | None:
        """The key of the foreign claim that the item's file showed when it was last read."""
        row = self.query("known_foreign_claim", item=item)
        return row[0][0] if row else None

    def put_foreign_claim(self, item: str, key: str) -> None:
        self.query("put_foreign_claim", item=item, mark=key)

    def vacated(self) -> dict[str, Entry]:
        """The paths that files left a short time ago, with their entries now. A file at the old path of an ended item
        is a new one, unless that path was its holder's."""
        found = {path: self.entry_of(item) for path, item in self.query("vacated")}
        return {path: entry for path, entry in found.items() if entry is not None}

    def forget_vacated(self, path: str) -> None:
        self.query("forget_vacated", path=path)

    def stamp(self, path: str) -> tuple[int, ...] | None:
        row = self.query("stamp", path=path)
        return tuple(row[0]) if row else None

    def differs_from(self, seen: Mapping[str, Stamp]) -> bool:
        """Whether a scan found anything to reconcile."""
        return {row[0]: row[1:] for row in self.query("stamps")} != seen or self.any_missing()

    def checksum(self) -> int:
        """The value of `Disk.checksum` if all files are as the index has them."""
        return int(self.query("checksum")[0][0])

    def any_missing(self) -> bool:
        return bool(self.query("any_missing")[0][0])


def vault_transaction(t: Transaction) -> VaultTransaction:
    assert isinstance(t, VaultTransaction)
    return t


def create_tables(connection: apsw.Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)


class IndexFile:
    """The database file of the index. `folder` is the vault's folder `.dibs`."""

    def __init__(self, root: str) -> None:
        self.folder = os.path.join(root, HIDDEN)
        self.path = os.path.join(self.folder, INDEX)

    def make_folder(self) -> None:
        """Make the folder, private to this machine: git ignores it."""
        self._refuse_links()
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        try:
            # "x" opens neither an existing file nor a link.
            with open(os.path.join(self.folder, ".gitignore"), "x", encoding="utf-8") as file:
                file.write("*\n")
        except FileExistsError:
            pass

    def connect(self, open_database: Callable[[], apsw.Connection]) -> apsw.Connection:
        connection = open_database()
        if connection.execute(STATEMENTS["created"]).fetchall() != [(len(TABLES),)]:
            create_tables(connection)
        if not self._was_made_here(connection):
            connection.close()
            self._remove()
            return self.connect(open_database)
        return connection

    def _was_made_here(self, connection: apsw.Connection) -> bool:
        here = os.stat(self.folder).st_ino
        found = connection.execute(STATEMENTS["place"]).fetchall()
        if not found:
            connection.execute(STATEMENTS["put_place"], {"inode": here})
            found = connection.execute(STATEMENTS["place"]).fetchall()
        return bool(found == [(here,)])

    def mark_place(self, connection: apsw.Connection) -> None:
        """Record where the restored index is: `put_place` does so only for a new one."""
        connection.execute(STATEMENTS["mark_place"], {"inode": os.stat(self.folder).st_ino})

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(self.path + suffix):
                os.unlink(self.path + suffix)

    def _refuse_links(self) -> None:
        """Refuse links in `.dibs`: a git clone may contain one, and dibs would write to the file that it leads to."""
        folder = self.folder
        names = ["", *os.listdir(folder)] if os.path.isdir(folder) else [""] if os.path.lexists(folder) else []
        for name in names:
            path = os.path.join(folder, name).rstrip("/")
            try:
                # A single call: SQLite may create or remove its journal between two.
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                continue
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise StoreUnusable(
                    f"{path} is a link or a special file; the vault's index must be a plain file: remove it", path=path
                )


def _entry(row: tuple[Any, ...]) -> Entry:
    path, item, *stamp = row[:6]
    fields = zip(("problem", "remark", "gone_at"), row[6:], strict=True)
    return Entry.of({"path": path, "item": item, "stamp": Stamp(stamp), **dict(fields)})
