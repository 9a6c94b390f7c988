"""Backups and exports of whole boards: what kind of file it is, what it contains, and the same in another format.

This is the one place that recognizes a format. A store restores its own format; a file in another one is converted
first, so that a backup of any store can be restored into any other. Every file is untrusted input.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from itertools import chain

from dibs.errors import DibsError, Invalid, StoreUnusable
from dibs.store.contract import LINES, SQLITE
from dibs.system import bounded_read, durable
from dibs.text import record_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from dibs.config import Settings
    from dibs.text.record_lines import Record

SQLITE_HEADER = b"SQLite format 3\0"
#: No line that a backup or an export begins with is longer.
FIRST_LINE_BYTES_MAX = 100_000
COPY_BYTES = 1 << 20


@contextmanager
def in_format(path: str, format: str | None, settings: Settings) -> Iterator[str]:
    """The path of a backup in this format with the content of the file at `path`. Without a format, and if nobody can
    say what the file is, it is that file itself."""
    found = _recognized(path) if format is not None and os.path.isfile(path) else format
    if found == format:
        yield path
        return
    with durable.TemporaryFolder("dibs-restore-") as folder:
        converted = os.path.join(folder, "backup")
        try:
            if format == SQLITE:
                _write_database(path, converted, settings)
            else:
                _write_lines(path, converted, settings)
        except (DibsError, OSError) as error:
            reason = error.message if isinstance(error, DibsError) else error
            raise StoreUnusable(f"{path} cannot be restored: {reason}", path=path) from error
        yield converted


@contextmanager
def records(
    file: BinaryIO, settings: Settings, on_line: Callable[[bytes], None] = lambda _: None
) -> Iterator[Iterator[Record]]:
    """The records of a backup or an export that a restore takes. A file that is incomplete is refused after its last
    record. `on_line` is called with each line before it is read, if the file consists of lines."""
    from dibs.store.sql import archive

    first = file.readline(bounded_read.LINE_BYTES_MAX)
    if not first:
        raise Invalid("the file is empty; a backup or an export has at least one record", field="file")
    if not first.startswith(SQLITE_HEADER):
        yield archive.restorable(record_lines.read(_watched(chain([first], bounded_read.lines(file)), on_line)))
        return
    from dibs.store.sqlite import backups

    with durable.TemporaryFolder("dibs-import-") as folder:
        path = os.path.join(folder, "backup")
        with open(path, "wb") as copy:
            copy.write(first)
            while piece := file.read(COPY_BYTES):
                copy.write(piece)
        try:
            transaction = backups.opened(path, os.path.join(folder, "board.db"), _anywhere(settings))
        except StoreUnusable as error:
            raise Invalid(f"the file cannot be read: {error.message.replace(path, 'it')}", field="file") from error
        try:
            yield archive.export(transaction)
        finally:
            transaction.connection.close(True)


def _recognized(path: str) -> str:
    with open(path, "rb") as file:
        first = file.readline(FIRST_LINE_BYTES_MAX)
    if first.startswith(SQLITE_HEADER):
        return SQLITE
    if record_lines.is_first_line(first):
        return LINES
    raise StoreUnusable(f"{path} cannot be restored: it is neither a backup nor an export of a board", path=path)


def _write_database(source: str, target: str, settings: Settings) -> None:
    from dibs.store.sqlite.store import SqliteStore

    store = SqliteStore(target, _anywhere(settings), create=True)
    try:
        with open(source, "rb") as file, records(file, settings) as found:
            store.load(found)
    finally:
        store.close()


def _write_lines(source: str, target: str, settings: Settings) -> None:
    from dibs.store.sql import backup_lines

    with open(source, "rb") as file, records(file, settings) as found:
        backup_lines.write(target, found)


def _watched(lines: Iterable[bytes], on_line: Callable[[bytes], None]) -> Iterator[bytes]:
    for line in lines:
        on_line(line)
        yield line


def _anywhere(settings: Settings) -> Settings:
    """For a database that only this process opens: any file system will do."""
    return settings.replace(network_filesystem=True)
