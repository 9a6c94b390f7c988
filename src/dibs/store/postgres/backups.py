"""Backups of a PostgreSQL board: all records of one snapshot, one JSON object per line.

The first line is a header. The last line has the number of records and their digest, so that damage is found before a
restore changes anything. For large databases the tools of PostgreSQL are better, but only this restore retires old
tokens.
"""

from __future__ import annotations

import hashlib
import json

from dibs.errors import Invalid, StoreUnusable
from dibs.system import durable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HEADER = {"dibs": "backup", "format": 1}


def write(path: str, records: Iterator[tuple[str, dict[str, Any]]]) -> None:
    try:
        with durable.NewFile(path) as partial, open(partial, "wb") as file:
            _write_records(file, records)
    except FileExistsError:
        raise Invalid(f"{path} exists already; a backup does not overwrite it", field="path") from None
    except OSError as error:
        raise StoreUnusable(f"the backup {path} cannot be written: {error}", path=path) from error


def require_complete(path: str) -> int:
    """The number of records of a backup; refuses a file that is not a complete one."""
    try:
        with open(path, "rb") as file:
            if json.loads(file.readline(1000)) != HEADER:
                raise ValueError("its first line is not a header")
            return _count(file)
    except (OSError, ValueError) as error:
        raise StoreUnusable(
            f"{path} cannot be restored: it is not a complete backup of a board ({error})", path=path
        ) from error


def read(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    with open(path, "rb") as file:
        file.readline()
        for line in file:
            data = _read_line(line)
            if "record" in data:
                yield data["record"], data["value"]


def _read_line(line: bytes) -> dict[str, Any]:
    """Parse a line and check its form: the digest shows that the file is complete, but not that dibs wrote it."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not ({"record", "value"} <= data.keys() or data.get("dibs") == "end"):
        raise Invalid('a line of a backup is {"record": KIND, "value": {...}}', field="path")
    return data


def _write_records(file: Any, records: Iterator[tuple[str, dict[str, Any]]]) -> None:
    file.write(_line(HEADER))
    count, digest = 0, hashlib.sha256()
    for kind, value in records:
        line = _line({"record": kind, "value": value})
        digest.update(line)
        count += 1
        file.write(line)
    file.write(_line(_end(count, digest.hexdigest())))


def _count(file: Any) -> int:
    count, digest, last = 0, hashlib.sha256(), b""
    for line in file:
        if last:
            digest.update(last)
            count += 1
        last = line
    if not last or json.loads(last) != _end(count, digest.hexdigest()):
        raise ValueError("its records do not match its digest")
    return count


def _end(count: int, digest: str) -> dict[str, Any]:
    return {"dibs": "end", "records": count, "sha256": digest}


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode() + b"\n"
