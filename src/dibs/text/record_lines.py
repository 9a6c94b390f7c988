"""The records of a board as lines of JSON: what an export and a backup of PostgreSQL consist of.

A backup begins with a header, and its last line has the number of the records and their digest, so that a file that
was cut off is recognized. An export has neither. A server sends and takes records as `[KIND, {...}]`.
"""

from __future__ import annotations

import hashlib
import json

from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Record = tuple[str, dict[str, Any]]

HEADER = {"dibs": "backup", "format": 1}


def backup(records: Iterable[Record]) -> Iterator[bytes]:
    """The lines of a backup."""
    yield _line(HEADER)
    count, digest = 0, hashlib.sha256()
    for kind, value in records:
        line = _line({"record": kind, "value": value})
        digest.update(line)
        count += 1
        yield line
    yield _line(_end(count, digest.hexdigest()))


def read(lines: Iterable[bytes]) -> Iterator[Record]:
    """The records of a backup, of an export, or of what a server sends. A backup that is incomplete is refused after
    its last line, so whoever reads it has to be able to take everything back."""
    count, digest, end = 0, hashlib.sha256(), None
    is_backup: bool | None = None
    for line in lines:
        if not line.strip():
            continue
        found = _parse(line)
        if is_backup is None:
            is_backup = found == HEADER
            if is_backup:
                continue
        if end is not None:
            raise Invalid("a line follows the last one of the backup", field="path")
        if is_backup and isinstance(found, dict) and found.get("dibs") == "end":
            end = found
            continue
        digest.update(line)
        count += 1
        yield _record(found)
    if is_backup and end != _end(count, digest.hexdigest()):
        raise Invalid("the backup is incomplete: its records do not match its digest", field="path")


def is_first_line(line: bytes) -> bool:
    """Whether a file of records begins with this line."""
    try:
        found = _parse(line)
        return found == HEADER or bool(_record(found))
    except Invalid:
        return False


def _record(found: object) -> Record:
    kind, value = None, None
    if isinstance(found, dict):
        kind, value = found.get("record"), found.get("value")
    elif isinstance(found, list) and len(found) == 2:
        kind, value = found
    if not isinstance(kind, str) or not isinstance(value, dict):
        raise Invalid('a record is {"record": KIND, "value": {...}}', field="path")
    return kind, value


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"a record is not valid JSON: {error}", field="path") from error


def _end(count: int, digest: str) -> dict[str, Any]:
    return {"dibs": "end", "records": count, "sha256": digest}


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode() + b"\n"
