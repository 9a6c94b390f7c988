"""Opening the database file: settings, schema, and a plain sentence for everything that can be wrong with it."""

from __future__ import annotations

import os
import sys
from stat import S_ISDIR, S_ISREG

import apsw

from dibs.config import Settings
from dibs.errors import DibsError, StoreUnavailable, StoreUnusable
from dibs.store.sqlite import beside
from dibs.store.sqlite.lock import FairLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: "dibs" in ASCII, so that `file` and other programs can tell whose database it is.
APPLICATION_ID = 0x64696273
SCHEMA_VERSION = 4
#: Small, because a one-shot process that finds a WAL without its index reads all of it.
CHECKPOINT_PAGES = 250
#: What so many pages of a WAL take, each with its head.
LOG_BYTES_MAX = CHECKPOINT_PAGES * (4096 + 24)
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
    """A connection to a board of this version's schema, made or migrated if need be."""
    found = _look(path)
    if found is None and not create:
        raise StoreUnusable(f"there is no board at {path}; make one with: dibs init", path=path)
    if not settings.network_filesystem:
        refuse_network_filesystem(path)
    if found is None:
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
        beside.make_board(path)
    else:
        beside.require_fit(path, found)
    try:
        connection = _configured(path, settings)
        # `dibs init` mends the journal mode of a board that is there, too.
        if schema_version(connection, path) != SCHEMA_VERSION or (
            create and connection.pragma("journal_mode") != "wal"
        ):
            migrate(connection, path, lock, create)
    except (apsw.Error, UnicodeError) as error:
        raise explain(error, path) from error
    return connection


def _look(path: str) -> os.stat_result | None:
    """What is known of the board's file; None if there is none. What cannot be one is refused."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if S_ISDIR(found.st_mode):
        raise StoreUnusable(f"{path} is a directory; a board is a file", path=path)
    if not S_ISREG(found.st_mode):
        raise StoreUnusable(f"{path} is no regular file; a board is one", path=path)
    if found.st_nlink > 1:
        raise StoreUnusable(
            f"{path} has another name (a hard link), and whoever uses that would not see our locks; keep one", path=path
        )
    return found


def _configured(path: str, settings: Settings) -> apsw.Connection:
    # The path was resolved before: a link that is there now was put there since.
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
    harden(connection)
    # Behind the fair lock, for writers that do not take it: a shell, a backup tool.
    connection.set_busy_timeout(round(settings.lock_wait_seconds * 1000))
    # Closing must not cost a checkpoint: most processes live for one verb.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # A plan must not depend on the values that are bound: else each execution would prepare its statement anew.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    pragmas = f"PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}"
    # Fetched, because a statement that answers with a row holds up those behind it.
    connection.execute(pragmas + ("; PRAGMA fullfsync = ON" if sys.platform == "darwin" else "")).fetchall()
    return connection


def harden(connection: apsw.Connection) -> None:
    """Nothing that stands in the schema of the file runs: no trigger, no view, no function of the program's."""
    for option in (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_VIEW):
        connection.config(option, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)


def shorten_log(connection: apsw.Connection, path: str) -> None:
    """Begin the WAL anew if it is long, unless somebody is using it; for a process that is about to leave.

    SQLite does so only in a process that writes again after a checkpoint. Where each lives for one verb there is none:
    every one of them would read all that was ever written, and copy it into the database once more.
    """
    try:
        if os.stat(path + "-wal").st_size > LOG_BYTES_MAX:
            connection.set_busy_timeout(0)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except (OSError, apsw.Error):
        pass


def schema_version(connection: apsw.Connection, path: str) -> int:
    """The schema's version; 0 for an empty database. What is no board, or a newer one, is refused."""
    application, version = _number(connection, "application_id"), _number(connection, "user_version")
    # Whose it is is read again in the end: another process may have made the board between two looks.
    if (
        application != APPLICATION_ID
        and (application or version or _number(connection, "schema_version"))
        and _number(connection, "application_id") != APPLICATION_ID
    ):
        raise StoreUnusable(f"{path} is a database of another program, not a board", path=path)
    if version > SCHEMA_VERSION:
        raise StoreUnusable(
            f"{path} was written by a newer dibs (schema {version}; this one knows {SCHEMA_VERSION}): upgrade dibs",
            path=path,
            schema=version,
            known=SCHEMA_VERSION,
        )
    return version


def migrate(connection: apsw.Connection, path: str, lock: FairLock, create: bool) -> None:
    """Bring the schema up to this version, one process at a time; whoever waited finds it done."""
    lock.acquire()
    try:
        version = schema_version(connection, path)
        if version == 0 and not create:
            raise StoreUnusable(f"{path} is empty; make a board of it with: dibs init", path=path)
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        for number in range(version + 1, SCHEMA_VERSION + 1):
            script = migration(number)
            stamp = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number}"
            connection.execute(f"BEGIN IMMEDIATE; {script}; {stamp}; COMMIT").fetchall()
        from dibs.durable import sync_folder

        sync_folder(os.path.dirname(os.path.abspath(path)))
    finally:
        lock.release()


def explain(error: BaseException, path: str) -> DibsError:
    """An error of SQLite or the system as one readable line, and whether waiting would help."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            text = f"the board {path} is busy: another program has locked it; try again"
            return StoreUnavailable(text, path=path, retry_after_seconds=1)
        case apsw.FullError():
            return StoreUnavailable(f"the disk of {path} is full; nothing was changed", path=path)
        case apsw.NotADBError() | apsw.CorruptError():
            return StoreUnusable(f"{path} is damaged or no board: {error}; restore a backup", path=path)
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | PermissionError():
            return StoreUnusable(
                f"{path} cannot be written: {error}; a board needs write access to its folder", path=path
            )
        case _:
            return StoreUnavailable(f"the board {path} does not answer: {error}", path=path)


def explain_commit(error: apsw.Error, path: str) -> DibsError:
    """An error of COMMIT. Unless the disk is full, the log may be complete, and be found so by whoever opens it next:
    after a sync that failed, nobody knows what is on the disk."""
    if isinstance(error, (apsw.BusyError, apsw.FullError)):
        return explain(error, path)
    return StoreUnavailable(
        f"the disk of {path} failed while this was committed, so it is not known whether it was done ({error});"
        " look, or ask with a request id, which makes asking again safe",
        path=path,
        outcome="unknown",
        retry_after_seconds=1,
    )


def refuse_network_filesystem(path: str) -> None:
    kind = _filesystem(os.path.abspath(path))
    if kind.startswith(NETWORK_FILESYSTEMS):
        raise StoreUnusable(
            f"{path} lies on a network filesystem ({kind}), where SQLite's locks cannot be trusted: put the board on a "
            "local disk, or set network_filesystem = true in [board] of dibs.toml if only one machine uses it",
            path=path,
            filesystem=kind,
        )


def _filesystem(path: str) -> str:
    """The type of the filesystem that holds this path; empty where the system does not tell."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    path = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        mount, _, source = line.partition(" - ")
        point = mount.split(" ")[4].replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, source.split(" ")[0]
    return kind


def _number(connection: apsw.Connection, pragma: str) -> int:
    value: Any = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(value[0])


def migration(number: int) -> str:
    """The statements that lead to schema `number` from the one before."""
    path = os.path.join(os.path.dirname(__file__), "migrations", f"{number:04d}.sql")
    with open(path, encoding="utf-8") as file:
        return file.read()
