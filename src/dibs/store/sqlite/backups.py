"""Backup and restore of a SQLite board. A backup appears under its name only once it is complete."""

from __future__ import annotations

import os

import apsw

from dibs.errors import DibsError, Invalid, StoreUnusable
from dibs.store.sql import archive, rows
from dibs.store.sqlite import damage, schema, side_files
from dibs.store.sqlite.database import harden, open_database, schema_version
from dibs.store.sqlite.lock import FairLock
from dibs.store.sqlite.transaction import SqliteTransaction
from dibs.system import durable, progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from dibs.config import Settings
    from dibs.store.sqlite.engine import Engine

#: The columns of webhooks and of dead letters.
WEBHOOK = ("id", "created_at", "cursor", "active", "record", "secrets", "deliverer", "leased_until", "revision")
LETTER = ("webhook", "event", "letter")
#: How many foreign objects of a schema an error message lists.
FOREIGN_SHOWN_MAX = 3
#: What reading a backup raises that is damaged, or that dibs did not write.
UNREADABLE = (apsw.Error, DibsError, LookupError, OSError, TypeError, ValueError)


def backup(source: apsw.Connection, path: str, settings: Settings, leave_out: Sequence[str] = ()) -> None:
    """Write a backup without the tables `leave_out`. It is read again before the file gets its name: who replaces last
    week's backup by one of a damaged board would lose both."""
    try:
        with durable.NewFile(path) as partial:
            copy = apsw.Connection(partial, flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                _copy_pages(source, copy)
                copy.execute("PRAGMA journal_mode = DELETE").fetchall()
                # The secrets of webhooks do not leave the board, not even in pages that are free.
                copy.execute("PRAGMA secure_delete = ON; DELETE FROM webhooks; DELETE FROM dead_letters").fetchall()
                for table in leave_out:
                    copy.execute(f"DROP TABLE IF EXISTS {table}").fetchall()
            finally:
                copy.close()
            _require_restorable(partial, path, settings)
    except FileExistsError:
        raise Invalid(f"{path} exists already; a backup does not overwrite it", field="path") from None
    except apsw.CorruptError as error:
        raise archive.not_backed_up(path, _reason(error, path, path)) from error
    except (apsw.Error, OSError) as error:
        raise StoreUnusable(f"the backup {path} cannot be written: {error}", path=path) from error


def _require_restorable(partial: str, path: str, settings: Settings) -> None:
    copy = apsw.Connection(partial, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        harden(copy)
        _require_sound(copy, partial, ())
        _check_records(copy, settings)
    except UNREADABLE as error:
        raise archive.not_backed_up(path, _reason(error, partial, path)) from error
    finally:
        copy.close(True)


def _copy_pages(source: apsw.Connection, target: apsw.Connection) -> None:
    """Copy all pages in one step, so that they are of one instant."""
    with target.backup("main", source, "main") as pages:
        pages.step(-1)


def restore(
    engine: Engine,
    path: str,
    actor: str,
    more_tables: Sequence[str],
    before_ring: Callable[[apsw.Connection], None] | None = None,
) -> int:
    """Replace the board's content with the backup's; return how many items got a new token. `before_ring` is called
    under the fair lock after the content was replaced."""
    if not os.path.isfile(path):
        raise Invalid(f"there is no backup at {path}", field="path")
    partial = f"{engine.path}-restore-{os.urandom(4).hex()}"

    def overwrite(live: apsw.Connection) -> int:
        # All of it under the fair lock: the restored board has to continue from the last token that was given.
        t = SqliteTransaction(live.cursor(), engine.clock(), engine.settings)
        given = archive.highest(t)
        own = own_rows(t)
        t.close()
        restored = _retire_tokens(copy, engine.settings, actor, given, own, t.now)
        _copy_pages(copy, live)
        if before_ring is not None:
            before_ring(live)
        return restored

    try:
        try:
            copy = _prepare(path, partial, engine.settings, more_tables)
        except StoreUnusable as error:
            raise StoreUnusable(f"{path} cannot be restored: {error.message}", path=path) from error
        try:
            return engine.exclusively(overwrite)
        finally:
            copy.close()
    finally:
        _remove(partial)


def opened(path: str, partial: str, settings: Settings) -> SqliteTransaction:
    """A transaction that reads a checked copy of a backup, which is made at `partial`; the caller closes its connection
    and removes the copy. What is wrong with the backup is a `StoreUnusable` that does not name it."""
    copy = _prepare(path, partial, settings, ())
    copy.execute("BEGIN")
    return SqliteTransaction(copy.cursor(), 0, settings)


def _prepare(path: str, partial: str, settings: Settings, more_tables: Sequence[str]) -> apsw.Connection:
    """Copy the backup to `partial`, check everything in it, and migrate it. The backup may have been written by an
    attacker: nothing in its schema is executed."""
    try:
        _copy_checked(path, partial, more_tables)
        copy = open_database(partial, settings, FairLock(partial, 1), create=False)
        try:
            left_out = _check_records(copy, settings)
            copy.executemany("DELETE FROM activity WHERE id = ?", [(line["id"],) for line in left_out])
        except BaseException:
            copy.close(True)
            raise
    except UNREADABLE as error:
        raise StoreUnusable(str(_reason(error, partial, path))) from error
    return copy


def _reason(error: BaseException, partial: str, path: str) -> object:
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return "it is damaged, or was cut off"  # SQLite's own text is at times "not an error"
    return error.message.replace(partial, path) if isinstance(error, DibsError) else error


def _remove(partial: str) -> None:
    for file in (partial, *(partial + suffix for suffix in side_files.SUFFIXES)):
        if os.path.lexists(file):
            os.unlink(file)


def _check_records(copy: apsw.Connection, settings: Settings) -> list[dict[str, Any]]:
    """The records that a restore leaves out; what it would refuse is refused."""
    left_out: list[dict[str, Any]] = []
    copy.execute("BEGIN")
    t = SqliteTransaction(copy.cursor(), 0, settings)
    records = progress.counted(archive.export_for_backup(t), "checked", lambda: _count(copy))
    archive.check_records(archive.restorable(records, left_out.append))
    t.close()
    copy.execute("COMMIT")
    return left_out


def _count(copy: apsw.Connection) -> int:
    """How many records the backup has, without those of the small tables."""
    counts = "SELECT (SELECT count(*) FROM items) + (SELECT count(*) FROM runs) + (SELECT count(*) FROM events)"
    ((count,),) = copy.execute(counts).fetchall()
    return int(count)  # type: ignore[arg-type]  # a sum of counts


def own_rows(t: SqliteTransaction) -> list[tuple[str, dict[str, Any]]]:
    """The rows that a restore leaves as they are, with the statements that write them: keys, so that a revoked key
    stays revoked, and webhooks, because a backup from elsewhere must not decide where this board sends its events."""
    return [
        *(("put_key", rows.encode(rows.key(row))) for row in t.all("keys")),
        *(("insert_webhook", dict(zip(WEBHOOK, row, strict=True))) for row in t.all("all_of_webhooks")),
        *(("put_dead_letter", dict(zip(LETTER, row, strict=True))) for row in t.all("all_dead_letters")),
        ("set_meta", {"name": archive.LAST_BACKUP_AT, "value": t.scalar("meta", name=archive.LAST_BACKUP_AT) or 0}),
    ]


def _retire_tokens(
    copy: apsw.Connection,
    settings: Settings,
    actor: str,
    given: tuple[int, int],
    own: Sequence[tuple[str, dict[str, Any]]],
    now: int,
) -> int:
    """Replace the rows that are this board's own, and retire every token of the copy that a worker could still have;
    return how many items got a new token."""
    copy.execute("BEGIN IMMEDIATE")
    t = SqliteTransaction(copy.cursor(), now, settings, writable=True)
    for statement in ("forget_keys", "forget_webhooks", "forget_dead_letters"):
        t.run(statement, {})
    for statement, row in own:
        t.run(statement, row)
    restored = archive.retire_tokens(t, given, actor)
    t.close()
    copy.execute("COMMIT")
    copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return restored


def _copy_checked(path: str, partial: str, more_tables: Sequence[str]) -> None:
    side_files.make_board(partial)
    source, copy = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY), apsw.Connection(partial)
    try:
        harden(source)
        harden(copy)
        _copy_pages(source, copy)
        _require_sound(copy, path, more_tables)
    finally:
        source.close()
        copy.close()


def _require_sound(copy: apsw.Connection, path: str, more_tables: Sequence[str]) -> None:
    fault = damage.found_in(copy)
    if fault is not None:
        raise StoreUnusable(f"it is damaged: {fault}")
    foreign = schema.differences(copy, schema_version(copy, path), more_tables)
    if foreign:
        raise StoreUnusable(f"its schema is not that of a board: {', '.join(foreign[:FOREIGN_SHOWN_MAX])}")
