"""A file of tasks in the format of session-task: a JSON list, or an object with a list `tasks`. A task has an id, a
title, a status, and a `claim` while a session works on it.

`items` turns its tasks into items of a board. `Mirror` writes the `status` and the `claim` of each item back. Other
programs own the rest of the file, and none of their writes may be lost. So the file is exchanged with a prepared one,
and the old one is compared with the text that was read: if they differ, another program wrote in between, and the two
are exchanged back.
"""

from __future__ import annotations

import json
import os
import stat

from dibs import check
from dibs.errors import Invalid, StoreUnavailable
from dibs.model import BLOCKED, CANCELLED, DONE, FAILED, IN_PROGRESS, REJECTED
from dibs.system.durable import lease, sync
from dibs.system.renaming import Renaming
from dibs.text import priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dibs.board import Board

    Task = dict[str, Any]

BYTES_MAX = 16 * 1024 * 1024
#: How many times in a row a file that other programs write to is retried.
TRIES_MAX = 20
#: How long a program may take to open a file whose name it has looked up, and how often that is checked.
OPENING_SECONDS, CHECK_SECONDS = 0.1, 0.005
#: The status in the file for each status of an item; `pending` for the others.
STATUS_WORDS = {IN_PROGRESS: "in_progress", BLOCKED: "blocked", DONE: "completed", FAILED: "failed"}
STATUS_WORDS |= {REJECTED: "cancelled", CANCELLED: "cancelled"}
PENDING = "pending"
OVER = frozenset({"completed", "done", "cancelled", "canceled", "skipped"})
#: For each field of an item, the fields of a task that it is taken from; the first that exists counts.
FIELDS = {
    "title": ("title", "name"),
    "body": ("description", "body", "details"),
    "type": ("type",),
    "phase": ("phase",),
    "labels": ("labels", "tags"),
    "project": ("project",),
}
DEPENDENCIES = ("dependencies", "dependsOn", "depends_on", "blockedBy")
NOT_CONTENT = frozenset({"id", "status", "claim", "assignee", "priority", *DEPENDENCIES})


class Unreadable(Invalid):
    """Not a file of tasks, or one that is being written."""


class Busy(StoreUnavailable):
    """Other programs write to the file all the time."""


def read(path: str) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Unreadable(f"{path} is not a file", field="file")
            text = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise Unreadable(f"cannot read {path}: {error.strerror}", field="file") from error
    if len(text) > BYTES_MAX:
        raise Unreadable(f"{path} has more than {BYTES_MAX} bytes", field="file")
    return text


def tasks(document: Any) -> list[Task]:
    """The tasks in a parsed file, to be changed in place."""
    found = document.get("tasks") if isinstance(document, dict) else document
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Unreadable('a file of tasks must be a list of objects, or {"tasks": [...]}', field="file")
    return found


def parse(text: bytes, path: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is not JSON: {error}", field="file") from error


def items(of: list[Task]) -> list[dict[str, Any]]:
    """The fields of an item for each task that is not over. Tasks that are over are dropped from dependencies."""
    over = {str(task.get("id")) for task in of if str(task.get("status", "")).lower() in OVER}
    found = []
    for number, task in enumerate(of, start=1):
        if str(task.get("id")) in over:
            continue
        try:
            found.append(_item(task, over))
        except Invalid as error:
            error.message = f"task {number}: {error.message}"
            raise
    return found


def _item(task: Task, over: set[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": check.item_id(str(task.get("id", "")))}
    used = set(NOT_CONTENT)
    for field, names in FIELDS.items():
        name = next((name for name in names if task.get(name) is not None), None)
        if name is not None:
            fields[field] = task[name]
            used.add(name)
    if task.get("priority") is not None:
        fields["priority"] = priorities.parse(task["priority"])
    needs = [str(one) for name in DEPENDENCIES for one in task.get(name) or ()]
    fields["depends_on"] = [one for one in needs if one not in over]
    fields["payload"] = {name: value for name, value in task.items() if name not in used}
    # Checked as `add` does, so that an error names the number of the task.
    check.new_item(fields)
    return fields


def states(board: Board) -> dict[str, Task]:
    """The `status` and the `claim` of every item, as the file has them."""
    found: dict[str, Task] = {
        item.id: {"status": STATUS_WORDS.get(item.status, PENDING)} for item in board.list(limit=check.LIST_MAX)
    }
    for line in board.who():
        if line.claim is not None and line.item.id in found:
            found[line.item.id]["claim"] = {
                "sessionId": line.claim.session,
                "claimedAt": times.iso(line.claim.claimed_at),
                "expiresAt": times.iso(line.claim.expires_at),
                "lastHeartbeat": times.iso(line.claim.renewed_at),
                "agentType": line.kind,
            }
    return found


def updated(text: bytes, path: str, states: Mapping[str, Task]) -> bytes:
    """The text with these states of its tasks; the same text if nothing changes."""
    document = parse(text, path)
    changed = False
    for task in tasks(document):
        state = states.get(str(task.get("id")))
        if state is None or {"status": task.get("status"), "claim": task.get("claim")} == {"claim": None, **state}:
            continue
        changed = True
        task["status"] = state["status"]
        if "claim" in state:
            task["claim"] = state["claim"]
        else:
            task.pop("claim", None)
    return _formatted(document, text) if changed else text


def _formatted(document: Any, like: bytes) -> bytes:
    """JSON with the indentation and the end of the former text."""
    second = like.split(b"\n", 2)[1:2]
    indent: str | int | None = None
    if second:
        indent = second[0][: len(second[0]) - len(second[0].lstrip())].decode() or 2
    return (json.dumps(document, indent=indent, ensure_ascii=False) + ("\n" if like.endswith(b"\n") else "")).encode()


class Mirror:
    """Writes the states of a board into one file."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        self._folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = os.path.basename(self._path)
        self._renaming = Renaming()

    def close(self) -> None:
        os.close(self._folder)

    def write(self, states: Mapping[str, Task]) -> bool:
        """Bring the file up to date; return whether anything changed."""
        for _ in range(TRIES_MAX):
            text = read(self._path)
            new = updated(text, self._path, states)
            if new == text or self._replace(text, new):
                return new != text
        raise Busy(f"other programs write to {self._path} all the time; try again later", file=self._path)

    def _replace(self, text: bytes, new: bytes) -> bool:
        """Replace the text of the file if it is still `text`; return whether it was."""
        name = f".{self._name}.{os.urandom(6).hex()}.dibs"
        ours, theirs, spare = (self._folder, name), (self._folder, self._name), (self._folder, f"{name}2")
        mode = stat.S_IMODE(os.stat(self._name, dir_fd=self._folder).st_mode)
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._folder)
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(new)
                file.flush()
                sync(file.fileno())
            with open(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC), "rb") as old:
                leased = lease(old.fileno())
                if leased is False or old.read() != text:
                    return False
                self._renaming.swap(ours, theirs, spare)
                is_old = os.stat(name, dir_fd=self._folder).st_ino == os.fstat(old.fileno()).st_ino
                if is_old and (not leased or _has_no_writer(old.fileno())):
                    return True
                self._renaming.swap(ours, theirs, spare)
                return False
        finally:
            os.unlink(name, dir_fd=self._folder)


def _has_no_writer(descriptor: int) -> bool:
    """Whether no program opens the replaced file for writing. A program that looked up its name before the exchange
    opens it, and so breaks the lease, within OPENING_SECONDS."""
    import fcntl
    import time

    end = time.monotonic() + OPENING_SECONDS
    while time.monotonic() < end:
        if fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK:
            return False
        time.sleep(CHECK_SECONDS)
    return True
