"""Backup and restore of a SQLite board: whole files, each there or not there."""

from __future__ import annotations

import apsw

from dibs.errors import DibsError, Invalid, StoreUnusable
from dibs.files import durable
from dibs.store.sql import archive, rows
from dibs.store.sqlite import schema, side_files
from dibs.store.sqlite.database import harden, open_database, schema_version
from dibs.store.sqlite.lock import FairLock
from dibs.store.sqlite.transaction import SqliteTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.config import Settings
    from dibs.model import Key

SQLITE_HEADER = b"SQLite format 3\0"
#: So many objects are named that do not belong into a schema.
FOREIGN_SHOWN_MAX = 3


def backup(source: apsw.Connection, path: str) -> None:
    """Copy the database into a new file that is whole or not there at all."""
    try:
        with durable.NewFile(path) as half:
            copy = apsw.Connection(half, flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                copy_pages(source, copy)
                copy.execute("PRAGMA journal_mode = DELETE").fetchall()
            finally:
                copy.close()
    except FileExistsError:
        raise Invalid(f"{path} is there already; a backup does not overwrite", field="path") from None
    except (apsw.Error, OSError) as error:
        raise StoreUnusable(f"the backup {path} cannot be written: {error}", path=path) from error


def copy_pages(source: apsw.Connection, target: apsw.Connection) -> None:
    """All pages in one step, so of one instant; readers do not hold up writers."""
    with target.backup("main", source, "main") as pages:
        pages.step(-1)


def prepared(path: str, half: str, settings: Settings, more_tables: Sequence[str]) -> apsw.Connection:
    """A copy of the backup, of this version's schema, once everything in it was checked: whoever wrote the file may
    have put anything there. Nothing that stands in its schema was run by then."""
    try:
        with open(path, "rb") as file:
            if file.read(len(SQLITE_HEADER)) != SQLITE_HEADER:
                raise StoreUnusable("it is no backup of a board")
        _copy_checked(path, half, more_tables)
        copy = open_database(half, settings, FairLock(half, 1), create=False)
        try:
            copy.execute("BEGIN")
            t = SqliteTransaction(copy.cursor(), 0, settings)
            archive.check_records(archive.export(t))
            archive.refuse_dangling(t)
            copy.execute("COMMIT")
        except BaseException:
            copy.close(True)
            raise
    except (apsw.Error, DibsError, LookupError, OSError, TypeError, ValueError) as error:
        reason = error.message.replace(half, path) if isinstance(error, DibsError) else error
        raise StoreUnusable(f"{path} cannot be restored: {reason}", path=path) from error
    return copy


def move_on(
    copy: apsw.Connection, settings: Settings, actor: str, given: tuple[int, int], keys: Sequence[Key], now: int
) -> int:
    """Spend every token of the copy that anybody could still have; how many items that concerned. Its keys are those of
    today: what was revoked since does not come back."""
    copy.execute("BEGIN IMMEDIATE")
    t = SqliteTransaction(copy.cursor(), now, settings, writable=True)
    concerned = archive.move_on(t, given, actor)
    t.run("forget_keys", {})
    for key in keys:
        t.run("put_key", rows.encode(key))
    t.close()
    copy.execute("COMMIT")
    copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return concerned


def _copy_checked(path: str, half: str, more_tables: Sequence[str]) -> None:
    side_files.make_board(half)
    source, copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY), apsw.Connection(half)
    try:
        harden(source)
        harden(copy)
        copy_pages(source, copy)
        damage = copy.execute("PRAGMA integrity_check(1)").fetchall()
        if damage != [("ok",)]:
            raise StoreUnusable(f"it is damaged: {damage[0][0]}")
        foreign = schema.differences(copy, schema_version(copy, path), more_tables)
        if foreign:
            raise StoreUnusable(f"its schema is not that of a board: {', '.join(foreign[:FOREIGN_SHOWN_MAX])}")
    finally:
        source.close()
        copy.close()
