"""A backup of a PostgreSQL board: every record of one instant, a line of JSON each, whole or not there at all.

It is a board's export under a first line that says so. For databases of any size the server's own tools are the
better backup; this one moves between stores and knows what a restore has to do about tokens.
"""

from __future__ import annotations

import json
import os

from dibs.errors import Invalid, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HEADER = {"dibs": "backup", "format": 1}


def write(path: str, records: Iterator[tuple[str, dict[str, Any]]]) -> None:
    if os.path.exists(path):
        raise Invalid(f"{path} is there already; a backup does not overwrite", field="path")
    half = f"{path}.half"
    try:
        with open(half, "w", encoding="utf-8") as file:
            file.write(json.dumps(HEADER) + "\n")
            for kind, value in records:
                file.write(json.dumps({"record": kind, "value": value}, ensure_ascii=False) + "\n")
            file.write(json.dumps({"dibs": "end"}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(half, path)
        _sync_folder(os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise StoreUnusable(f"the backup {path} cannot be written: {error}", path=path) from error


def refuse_foreign(path: str) -> None:
    """Refuse what is no backup, or not all of one, before anything is touched."""
    try:
        with open(path, "rb") as file:
            first = json.loads(file.readline(1000))
            file.seek(-min(100, os.path.getsize(path)), os.SEEK_END)
            last = json.loads(file.read().splitlines()[-1])
    except (OSError, ValueError, IndexError) as error:
        raise StoreUnusable(f"{path} cannot be restored: it is no backup of a board ({error})", path=path) from error
    if first != HEADER or last != {"dibs": "end"}:
        raise StoreUnusable(f"{path} cannot be restored: it is no backup of a board, or not all of one", path=path)


def read(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            data = json.loads(line)
            if "record" in data:
                yield data["record"], data["value"]


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
