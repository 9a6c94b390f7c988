"""Whether a board is damaged, or one read of it failed.

SQLite reports a read that the system refused (EIO) with the same error as a damaged database, and keeps neither the
system's error nor a code that would tell the two apart. So the board is read again, as a whole: to restore a backup
because of one failed read would lose every change since.
"""

from __future__ import annotations

import threading
import time

import apsw

from dibs.store.sqlite.database import damaged, failed_disk, harden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.errors import DibsError

#: How long a board that was found damaged counts as such, so that not every call of a server reads all of it.
FOUND_SECONDS = 10.0
#: How many faults of one board are listed.
FAULTS_MAX = 100
#: Errors that are about the content, whatever the disk did.
_CERTAIN = (apsw.SQLITE_CORRUPT_INDEX, apsw.SQLITE_CORRUPT_SEQUENCE, apsw.SQLITE_CORRUPT_VTAB)
_checking = threading.Lock()
_found_at: dict[str, float] = {}


def explain(error: BaseException, path: str) -> DibsError:
    """An error that says that the board is damaged, as an error of dibs."""
    if getattr(error, "extendedresult", None) in _CERTAIN:
        return damaged(error, path)
    with _checking:
        is_known = time.monotonic() - _found_at.get(path, float("-inf")) < FOUND_SECONDS
        if not is_known and finding(path) is None:
            return failed_disk("one read failed; a second look at all of the board found no damage", path)
        if not is_known:
            _found_at[path] = time.monotonic()
    return damaged(error, path)


def finding(path: str) -> str | None:
    """What is wrong with the database, by a look at all of it; None if it is sound, or too busy to be looked at."""
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW)
        try:
            harden(connection)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            return found_in(connection)
        finally:
            connection.close(True)
    except (apsw.BusyError, apsw.CantOpenError):
        return None
    except apsw.Error as error:
        return str(error)


def found_in(connection: apsw.Connection) -> str | None:
    """The first fault of the database, in one line."""
    return next(iter(faults(connection, 1)), None)


def faults(connection: apsw.Connection, most: int = FAULTS_MAX) -> list[str]:
    """The faults of the database, each in one line. The pragma itself, and not the table of that name, which a file
    from elsewhere may have replaced by one of its own."""
    try:
        found = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({most})")]
    except UnicodeDecodeError:
        return ["something whose name is not UTF-8 has a fault"]
    return [] if found == ["ok"] else [" ".join(line.split()) for line in found]
