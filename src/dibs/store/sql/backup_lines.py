"""Backups in lines of JSON (`text/record_lines.py`), of one snapshot: those of PostgreSQL.

For large databases the tools of PostgreSQL are better, but only this restore retires old tokens.
"""

from __future__ import annotations

from dibs.errors import DibsError, Invalid, StoreUnusable
from dibs.store.sql import archive
from dibs.system import bounded_read, durable
from dibs.text import record_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.text.record_lines import Record


def write(path: str, records: Iterator[Record]) -> None:
    """Write a backup, and read it again before the file gets its name."""
    try:
        with durable.NewFile(path) as partial:
            with open(partial, "wb") as file:
                file.writelines(record_lines.backup(records))
            archive.check_records(archive.restorable(read(partial)))
    except Invalid as error:
        raise archive.not_backed_up(path, error.message) from error
    except FileExistsError:
        raise Invalid(f"{path} exists already; a backup does not overwrite it", field="path") from None
    except OSError as error:
        raise StoreUnusable(f"the backup {path} cannot be written: {error}", path=path) from error


def require_complete(path: str) -> int:
    """The number of records of a backup or an export; refuses a file that is not a complete one."""
    try:
        return sum(1 for _ in read(path))
    except (DibsError, OSError) as error:
        reason = error.message if isinstance(error, DibsError) else error
        raise StoreUnusable(f"{path} cannot be restored: {reason}", path=path) from error


def read(path: str) -> Iterator[Record]:
    with open(path, "rb") as file:
        yield from record_lines.read(bounded_read.lines(file))
