"""Backup and restore of a SQLite board: whole files, each there or not there."""

from __future__ import annotations

import apsw

from dibs import durable
from dibs.errors import Invalid, StoreUnusable
from dibs.store.sqlite.connection import open_database
from dibs.store.sqlite.lock import FairLock
from dibs.store.sqlite.transaction import SqliteTransaction
from dibs.store.tables import archive, rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.config import Settings
    from dibs.model import Key

SQLITE_HEADER = b"SQLite format 3\0"


def backup(source: apsw.Connection, path: str) -> None:
    """Copy the database into a new file that is whole or not there at all."""
    try:
        with durable.NewFile(path) as half:
            copy = apsw.Connection(half)
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


def moved_on(
    path: str, half: str, settings: Settings, actor: str, given: tuple[int, int], keys: Sequence[Key], now: int
) -> tuple[apsw.Connection, int]:
    """A copy of the backup in which every token anybody could still have is spent; how many items that concerned. Its
    keys are those of today: what was revoked since does not come back."""
    with open(path, "rb") as file:
        if file.read(len(SQLITE_HEADER)) != SQLITE_HEADER:
            raise StoreUnusable(f"{path} cannot be restored: it is no backup of a board", path=path)
    source, copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY), apsw.Connection(half)
    try:
        copy_pages(source, copy)
    except apsw.Error as error:
        raise StoreUnusable(f"{path} cannot be restored: {error}", path=path) from error
    finally:
        source.close()
        copy.close()
    lock = FairLock(half + "-lock", 1)
    try:
        copy = open_database(half, settings, lock, create=False)
    except StoreUnusable as error:
        reason = error.message.replace(half, path)
        raise StoreUnusable(f"{path} cannot be restored: {reason}", path=path) from error
    copy.execute("BEGIN IMMEDIATE")
    t = SqliteTransaction(copy.cursor(), now, settings, writable=True)
    concerned = archive.move_on(t, given, actor)
    t.run("forget_keys", {})
    for key in keys:
        t.run("put_key", rows.encode(key))
    copy.execute("COMMIT")
    copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    lock.forget()
    return copy, concerned
