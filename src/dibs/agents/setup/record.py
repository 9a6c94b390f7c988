"""What setup has inserted, so that it can be taken back to the byte. There is a record for each client and scope, in
the folder of dibs' state. It holds our own text only, nothing of the person's files.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field

from dibs.agents.setup.edit import Insertion
from dibs.system import bounded_read, durable


@dataclass
class FileRecord:
    #: Whether there was no file before.
    created: bool
    insertions: list[Insertion]


@dataclass
class Record:
    files: dict[str, FileRecord] = field(default_factory=dict)
    #: Folders that were made, outermost first.
    folders: list[str] = field(default_factory=list)
    #: Folders that a sandbox lets commands write.
    roots: list[str] = field(default_factory=list)


#: Of a record: it has the text of each insertion.
BYTES_MAX = 16 << 20


def path_of(state: str, client: str, project: str | None) -> str:
    scope = "" if project is None else "-" + hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
    return os.path.join(state, "setup", f"{client}{scope}.json")


def load(path: str) -> Record | None:
    """None without a record, or with one that cannot be read: then our entries are found by what they look like."""
    try:
        found = json.loads(bounded_read.read(path, BYTES_MAX))
        files = {
            name: FileRecord(bool(one["created"]), [Insertion(int(at), str(text)) for at, text in one["insertions"]])
            for name, one in found["files"].items()
        }
        return Record(files, [str(each) for each in found["folders"]], [str(each) for each in found["roots"]])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def save(path: str, record: Record) -> None:
    durable.write_private(path, json.dumps(asdict(record), indent=1).encode() + b"\n")


def others(path: str) -> dict[str, Record]:
    """The other records beside one, by their paths."""
    folder = os.path.dirname(path)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = {each: load(each) for name in names if (each := os.path.join(folder, name)) != path}
    return {each: record for each, record in found.items() if record is not None}


def delete(path: str, folders: list[str]) -> None:
    """Delete a record, then those of the folders and of the state's own folders that are empty. A folder that another
    record needs, because a sandbox names it or because the record is in it, is that record's from now on."""
    if os.path.exists(path):
        os.unlink(path)
    records = os.path.dirname(path)
    state = os.path.dirname(records)
    heirs = others(path)
    needed = {root for record in heirs.values() for root in record.roots}
    for folder in [os.path.join(state, "agents"), records, state, *folders]:
        if folder not in needed:
            _remove(folder)
    left = [folder for folder in reversed(folders) if os.path.isdir(folder)]
    for heir, found in heirs.items():
        mine = [folder for folder in left if any(_is_in(each, folder) for each in (heir, *found.roots))]
        if mine:
            found.folders = [*mine, *(folder for folder in found.folders if folder not in mine)]
            save(heir, found)
            left = [folder for folder in left if folder not in mine]


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def _remove(folder: str) -> None:
    """Remove a folder if it is empty."""
    try:
        os.rmdir(folder)
    except OSError:
        pass
