"""Opens the database file: connection settings, migrations, and SQLite's errors as errors of dibs."""

from __future__ import annotations

import os
import sys
from stat import S_ISDIR, S_ISREG

import apsw

from dibs.config import Settings
from dibs.errors import DibsError, StoreUnavailable, StoreUnusable
from dibs.store.contract import BEFORE_SCHEMA_1, FULL, READ_ONLY
from dibs.store.sqlite import side_files
from dibs.store.sqlite.lock import FairLock
from dibs.system.mounts import filesystem_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: "Dibs" in ASCII, so that `file` and other programs recognize the database.
APPLICATION_ID = 0x44696273
#: "dibs": the id of a board from before version 1 of the schema.
ID_BEFORE_1 = 0x64696273
SCHEMA_VERSION = 1
#: Small, because a process that finds a WAL without its index (the -shm file) has to read the whole WAL.
CHECKPOINT_PAGES = 250
#: The size of a WAL of that many pages, each with its frame header.
WAL_BYTES_MAX = CHECKPOINT_PAGES * (4096 + 24)
_LACKS_WAL = (
    ", and nothing is in {path}-wal. If it is a copy of a board, the copy lacks the file -wal: copy the board again,"
    " with dibs backup. If not,"
)
NETWORK_FILESYSTEMS = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "afs",
    "ceph",
    "fuse.sshfs",
    "fuse.gluster",
    "gluster",
    "lustre",
    "beegfs",
)


def open_database(path: str, settings: Settings, lock: FairLock, *, create: bool) -> apsw.Connection:
    """A connection to the board, which is migrated to this version's schema, or created with `create`."""
    found = _stat_board(path)
    if found is None and not create:
        raise StoreUnusable(f"there is no board at {path}; create one with: dibs init", path=path)
    if not settings.network_filesystem:
        refuse_network_filesystem(path)
    if found is None:
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
        side_files.make_board(path)
    else:
        side_files.require_safe_side_files(path, found)
    try:
        connection = _connect(path, settings)
        # `dibs init` also repairs the journal mode of an existing board.
        if schema_version(connection, path) != SCHEMA_VERSION or (
            create and connection.pragma("journal_mode") != "wal"
        ):
            migrate(connection, path, lock, create)
    except (apsw.Error, UnicodeError) as error:
        raise explain(error, path) from error
    return connection


class OpenedFile:
    """Which file a connection has open. SQLite would keep writing to a file that was removed or replaced, where no
    other process sees a claim."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._opened: tuple[int, int] | None = None

    def open(self, connect: Callable[[], apsw.Connection]) -> apsw.Connection:
        # Looked up before it is opened: a file that is replaced in between counts as replaced.
        found = self._found()
        connection = connect()
        self._opened = found or self._found()
        return connection

    def is_replaced(self) -> bool:
        """Whether the opened file is no longer the one at the path. While it is open, no other file gets its inode."""
        return self._found() != self._opened

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino


def _stat_board(path: str) -> os.stat_result | None:
    """The stat of the board's file; None if it does not exist. Anything but a regular file with one hard link is
    refused."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if S_ISDIR(found.st_mode):
        raise StoreUnusable(f"{path} is a directory; a board is a file", path=path)
    if not S_ISREG(found.st_mode):
        raise StoreUnusable(f"{path} is not a regular file; a board is a regular file", path=path)
    if found.st_nlink > 1:
        raise StoreUnusable(
            f"{path} has another hard link; processes that open the board there would not see its locks: remove one of"
            " the two links",
            path=path,
        )
    return found


def _connect(path: str, settings: Settings) -> apsw.Connection:
    # The path is already resolved, so a link at it was planted since.
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
    harden(connection)
    # For writers that do not take the fair lock, such as the sqlite3 shell or a backup tool.
    connection.set_busy_timeout(round(settings.lock_wait_seconds * 1000))
    # Closing must not cost a checkpoint, because most processes run one verb.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # Plans must not depend on bound values, or SQLite would prepare a statement again for each execution.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    pragmas = f"PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}"
    # Fetched, because a statement with an unread row blocks those after it.
    connection.execute(pragmas + ("; PRAGMA fullfsync = ON" if sys.platform == "darwin" else "")).fetchall()
    return connection


def harden(connection: apsw.Connection) -> None:
    """Run no code from the file's schema: no triggers, no views, no application-defined functions."""
    for option in (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_VIEW):
        connection.config(option, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)


def checkpoint(connection: apsw.Connection, path: str, *, always: bool) -> None:
    """Write the WAL into the file and truncate it, if it is long or `always`, before this process closes the board. If
    others read or write meanwhile, as much is written as can be without waiting for them.

    SQLite restarts the WAL only in a process that writes again after a checkpoint. Processes that run one verb never
    do, so each of them would read, and checkpoint again, an ever longer WAL.
    """
    try:
        if os.stat(path + "-wal").st_size > (0 if always else WAL_BYTES_MAX):
            connection.set_busy_timeout(0)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except (OSError, apsw.Error):
        pass


def schema_version(connection: apsw.Connection, path: str) -> int:
    """The version of the schema; 0 for an empty database. A foreign database, a newer schema and one from before
    version 1 are refused."""
    application, version = _number(connection, "application_id"), _number(connection, "user_version")
    if application == ID_BEFORE_1:
        raise StoreUnusable(f"{path} {BEFORE_SCHEMA_1}", path=path)
    # The application id is read twice: another process may create the board in between.
    if (
        application != APPLICATION_ID
        and (application or version or _number(connection, "schema_version"))
        and _number(connection, "application_id") != APPLICATION_ID
    ):
        raise StoreUnusable(f"{path} is a database of another program, not a board", path=path)
    if version > SCHEMA_VERSION:
        raise StoreUnusable(
            f"{path} was written by a newer dibs (schema {version}; this one reads {SCHEMA_VERSION}): upgrade dibs",
            path=path,
            schema=version,
            known=SCHEMA_VERSION,
        )
    return version


def migrate(connection: apsw.Connection, path: str, lock: FairLock, create: bool) -> None:
    """Migrate the schema to this version, under the fair lock."""
    lock.acquire()
    try:
        version = schema_version(connection, path)
        if version == 0 and not create:
            copied = ";" if _has_wal(path) else _LACKS_WAL.format(path=path)
            raise StoreUnusable(f"{path} is empty{copied} create a board in it with: dibs init", path=path)
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        for number in range(version + 1, SCHEMA_VERSION + 1):
            script = migration(number)
            stamp = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number}"
            connection.execute(f"BEGIN IMMEDIATE; {script}; {stamp}; COMMIT").fetchall()
        from dibs.system.durable import sync_folder

        sync_folder(os.path.dirname(os.path.abspath(path)))
    finally:
        lock.release()


def _has_wal(path: str) -> bool:
    """Whether a WAL with content is beside the file. SQLite makes an empty one when it opens the file."""
    try:
        return os.stat(path + "-wal").st_size > 0
    except OSError:
        return False


def explain(error: BaseException, path: str) -> DibsError:
    """An error of SQLite or the system as an error of dibs."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            text = f"the board {path} is busy: another program has locked it; try again"
            return StoreUnavailable(text, path=path, retry_after_seconds=1)
        case apsw.FullError():
            return StoreUnavailable(f"the disk of {path} is full; nothing was changed", path=path, problem=FULL)
        case apsw.CorruptError():
            from dibs.store.sqlite import damage

            return damage.explain(error, path)
        case apsw.NotADBError() | UnicodeError():
            return damaged(error, path)
        case apsw.IOError():
            return failed_disk(error, path)
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | PermissionError():
            return StoreUnusable(
                f"{path} cannot be written: {error}; dibs needs write access to it and its folder",
                path=path,
                problem=READ_ONLY,
            )
        case _:
            return StoreUnavailable(f"the board {path} failed: {error}", path=path)


def damaged(what: object, path: str) -> StoreUnusable:
    return StoreUnusable(f"{path} is damaged or not a board: {what}; restore a backup", path=path)


def failed_disk(what: object, path: str) -> StoreUnavailable:
    """One read or write has failed, which says nothing about the board."""
    text = f"the disk of {path} failed ({what}); try again, and check the disk if it fails again"
    return StoreUnavailable(text, path=path, retry_after_seconds=1)


def explain_commit(error: apsw.Error, path: str) -> DibsError:
    """An error of COMMIT. Unless the board was busy or the disk full, the outcome is unknown: after a failed sync, the
    WAL may be complete on the disk, and the next process would find the commit."""
    if isinstance(error, (apsw.BusyError, apsw.FullError)):
        return explain(error, path)
    return StoreUnavailable(
        f"the disk of {path} failed during the commit, so the outcome is unknown ({error});"
        " check the board, or use a request id, which makes a retry safe",
        path=path,
        outcome="unknown",
        retry_after_seconds=1,
    )


def refuse_network_filesystem(path: str) -> None:
    kind = filesystem_type(path)
    if kind.startswith(NETWORK_FILESYSTEMS):
        raise StoreUnusable(
            f"{path} is on a network filesystem ({kind}), where SQLite's locks are unreliable: move the board to a"
            " local disk, or set network_filesystem = true in [board] of dibs.toml if only one machine uses it",
            path=path,
            filesystem=kind,
        )


def _number(connection: apsw.Connection, pragma: str) -> int:
    value: Any = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(value[0])


def migration(number: int) -> str:
    """The statements that migrate schema `number` - 1 to `number`."""
    path = os.path.join(os.path.dirname(__file__), "migrations", f"{number:04d}.sql")
    with open(path, encoding="utf-8") as file:
        return file.read()
