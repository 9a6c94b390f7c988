"""From the edits of a client to the changes of files: what to show, and what to write. Nothing is written before all
changes are known.
"""

from __future__ import annotations

import difflib
import os
import stat
from dataclasses import dataclass, field

from dibs.agents.setup.edit import Edit, insert, take_back
from dibs.agents.setup.record import FileRecord, Record
from dibs.errors import Invalid
from dibs.system import durable

#: Larger files are not settings of a client.
BYTES_MAX = 16 << 20


@dataclass(frozen=True)
class Change:
    """`before` and `after` are None where there is no file."""

    path: str
    before: str | None
    after: str | None

    def diff(self) -> list[str]:
        old, new = (self.path if text is not None else os.devnull for text in (self.before, self.after))
        lines = difflib.unified_diff(_lines(self.before), _lines(self.after), old, new, lineterm="")
        return list(lines) or [f"--- {old}", f"+++ {new}"]


@dataclass
class Plan:
    changes: list[Change] = field(default_factory=list)
    #: To make, outermost first; after removal, to remove if they are empty, innermost first.
    folders: list[str] = field(default_factory=list)
    #: What stays recorded.
    record: Record = field(default_factory=Record)
    #: Files of ours that a person has changed: they stay.
    kept: list[str] = field(default_factory=list)
    #: Sessions that hooks look after, and no longer do.
    sessions: list[str] = field(default_factory=list)


def to_set_up(edits: list[Edit], folders: list[str], roots: list[str], earlier: Record | None, records: str) -> Plan:
    """The changes after which every edit is complete. What an older version inserted is replaced. `records` is the
    folder of the record."""
    earlier = earlier or Record()
    plan = Plan(record=Record(dict(earlier.files), list(earlier.folders), roots))
    for edit in edits:
        text = read(edit.path)
        if text is not None and edit.is_complete(text):
            continue
        _require_writable(edit.path)
        base = _without_ours(edit, text, earlier.files.get(edit.path))
        insertions = edit.insertions(base)
        plan.changes.append(Change(edit.path, text, insert(base or "", insertions)))
        plan.record.files[edit.path] = FileRecord(base is None, insertions)
    for folder in [*folders, *(os.path.dirname(change.path) for change in plan.changes)]:
        plan.folders += [each for each in _missing_folders(folder) if each not in plan.folders]
    if plan.changes or plan.folders:
        plan.folders += [each for each in _missing_folders(records) if each not in plan.folders]
    plan.record.folders += [each for each in plan.folders if each not in plan.record.folders]
    return plan


def to_remove(edits: list[Edit], earlier: Record | None) -> Plan:
    """The changes after which nothing of ours is left."""
    earlier = earlier or Record()
    plan = Plan()
    known = {edit.path: edit for edit in edits}
    for path in dict.fromkeys([*known, *earlier.files]):
        text = read(path)
        if text is None:
            continue
        edit, kept = known.get(path), earlier.files.get(path)
        base = _without_ours(edit, text, kept) if edit else take_back(text, kept.insertions if kept else [])
        if base != text:
            plan.changes.append(Change(path, text, base or None if kept and kept.created else base))
        elif kept and edit:
            plan.kept.append(path)
    plan.folders = [each for each in reversed(earlier.folders) if os.path.isdir(each)]
    return plan


def problems(edits: list[Edit], folders: list[str]) -> list[str]:
    """What is not as setup would leave it, one line each."""
    found = []
    for edit in edits:
        try:
            text = read(edit.path)
            if text is None:
                found.append(f"{edit.path} does not exist")
            elif not edit.is_complete(text):
                found.append(f"{edit.path} is not as setup leaves it")
        except Invalid as error:
            found.append(error.message)
    return found + [f"the folder {folder} does not exist" for folder in folders if not os.path.isdir(folder)]


def write(plan: Plan) -> None:
    """Carry the changes out. If one fails, those before it are undone."""
    written: list[Change] = []
    for change in plan.changes:
        if read(change.path) != change.before:
            raise Invalid(f"{change.path} has changed meanwhile; run the command again", field="file", path=change.path)
    try:
        for change in plan.changes:
            written.append(change)
            _replace(change.path, change.after)
    except BaseException:
        for change in reversed(written):
            _replace(change.path, change.before)
        raise


def make_folders(folders: list[str], private: list[str]) -> None:
    """Make folders; only their owner may enter the private ones and what is in them."""
    for folder in folders:
        is_private = any(os.path.commonpath([folder, each]) == each for each in private)
        os.makedirs(folder, mode=0o700 if is_private else 0o777, exist_ok=True)


def read(path: str) -> str | None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Invalid(f"{path} is not a regular file", field="file", path=path)
        with open(path, "rb") as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field="file", path=path) from error
    try:
        if len(data) <= BYTES_MAX:
            return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{path}, line {line}: not UTF-8", field="file", path=path, line=line) from error
    raise Invalid(f"{path} has more than {BYTES_MAX} bytes", field="file", path=path)


def _without_ours(edit: Edit, text: str | None, kept: FileRecord | None) -> str | None:
    """The text as it was before setup: without what was inserted, else without what looks like our entries."""
    if text is None:
        return None
    if kept is not None:
        earlier = take_back(text, kept.insertions)
        if earlier == "" and kept.created:
            return None
        if earlier is not None and _is_same(edit, earlier, text):
            return earlier
    stripped = edit.stripped(text)
    may_vanish = stripped != text and (kept is None or kept.created)
    return None if may_vanish and edit.is_empty(stripped) else stripped


def _is_same(edit: Edit, earlier: str, text: str) -> bool:
    """Whether both texts say the same beside our entries: the person's own lines may depend on ours."""
    try:
        return bool(edit.theirs(earlier) == edit.theirs(text))
    except Invalid:
        return False


def _missing_folders(folder: str) -> list[str]:
    missing: list[str] = []
    while folder and not os.path.isdir(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def _require_writable(path: str) -> None:
    """Refuse a link that leads into a folder that does not exist: nothing can be written there."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.islink(path) and not os.path.isdir(folder):
        problem = f"{path} is a link into {folder}, which does not exist; make that folder, or remove the link"
        raise Invalid(problem, field="file", path=path)


def _replace(path: str, text: str | None) -> None:
    """Write or delete the file in one step. It keeps its permissions, and a link to it stays."""
    target = os.path.realpath(path)
    if text is None:
        if os.path.lexists(target):
            os.unlink(target)
        return
    durable.replace(target, text.encode(), mode=0o666, keeps_mode=True)


def _lines(text: str | None) -> list[str]:
    return [] if text is None else text.removesuffix("\n").split("\n")
