"""A file of tasks as the session-task design has it: a JSON list, or an object with a list `tasks`. A task has an id,
a title, a status, and while a session is on it a `claim`.

`items` are its tasks as items of a board. `Mirror` writes the other way: it keeps `status` and `claim` of each task as
the board has them. Everything else in the file is other programs', and no write of theirs may be lost. So the file
changes places with a prepared one, and the one that gave way is compared with what was read: if they differ, somebody
wrote in between, and they change places again.
"""

from __future__ import annotations

import json
import os
import stat

from dibs import check
from dibs.errors import Invalid, StoreUnavailable
from dibs.files.durable import lease, sync
from dibs.files.renaming import Renaming
from dibs.model import BLOCKED, CANCELLED, DONE, FAILED, IN_PROGRESS, REJECTED
from dibs.text import priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dibs.board import Board

    Task = dict[str, Any]

BYTES_MAX = 16 * 1024 * 1024
#: How often a file that others write to is tried again in a row.
TRIES_MAX = 20
#: How long a program may take from finding a file to having it open, and how often that is looked at.
ARRIVAL_SECONDS, LOOK_SECONDS = 0.1, 0.005
#: The file's words for statuses of ours, and ours for its own; what is neither is kept as it is.
STATUS_WORDS = {IN_PROGRESS: "in_progress", BLOCKED: "blocked", DONE: "completed", FAILED: "failed"}
STATUS_WORDS |= {REJECTED: "cancelled", CANCELLED: "cancelled"}
PENDING = "pending"
OVER = frozenset({"completed", "done", "cancelled", "canceled", "skipped"})
#: Fields of a task, by the field of an item that they become; the first that is there counts.
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
    """No file of tasks, or one that is being written."""


class Busy(StoreUnavailable):
    """Others write to the file all the time."""


def read(path: str) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Unreadable(f"{path} is no file", field="file")
            text = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise Unreadable(f"cannot read {path}: {error.strerror}", field="file") from error
    if len(text) > BYTES_MAX:
        raise Unreadable(f"{path} has more than {BYTES_MAX} bytes", field="file")
    return text


def tasks(document: Any) -> list[Task]:
    """The tasks of a parsed file, which they are part of."""
    found = document.get("tasks") if isinstance(document, dict) else document
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Unreadable('a file of tasks is a list of objects, or {"tasks": [...]}', field="file")
    return found


def parse(text: bytes, path: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is no JSON: {error}", field="file") from error


def items(of: list[Task]) -> list[dict[str, Any]]:
    """The fields of an item for each task that is not over. What is over is no dependency any more."""
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
    # Each field as `add` would have it, so that a mistake is told with the task's number.
    check.new_item(fields)
    return fields


def states(board: Board) -> dict[str, Task]:
    """`status` and `claim` of every item, in the file's words."""
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


def told(text: bytes, path: str, to: Mapping[str, Task]) -> bytes:
    """The text with `status` and `claim` of each task as they are on the board; the same text if they are already."""
    document = parse(text, path)
    changed = False
    for task in tasks(document):
        state = to.get(str(task.get("id")))
        if state is None or {"status": task.get("status"), "claim": task.get("claim")} == {"claim": None, **state}:
            continue
        changed = True
        task["status"] = state["status"]
        if "claim" in state:
            task["claim"] = state["claim"]
        else:
            task.pop("claim", None)
    return _written(document, text) if changed else text


def _written(document: Any, like: bytes) -> bytes:
    """Indented and ended as the text was."""
    second = like.split(b"\n", 2)[1:2]
    indent: str | int | None = None
    if second:
        indent = second[0][: len(second[0]) - len(second[0].lstrip())].decode() or 2
    return (json.dumps(document, indent=indent, ensure_ascii=False) + ("\n" if like.endswith(b"\n") else "")).encode()


class Mirror:
    """Keeps one file as the board is."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        self._folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = os.path.basename(self._path)
        self._renaming = Renaming()

    def close(self) -> None:
        os.close(self._folder)

    def write(self, to: Mapping[str, Task]) -> bool:
        """Bring the file up to date; whether there was anything to write."""
        for _ in range(TRIES_MAX):
            text = read(self._path)
            wanted = told(text, self._path, to)
            if wanted == text or self._replace(text, wanted):
                return wanted != text
        raise Busy(f"{self._path} is being written to all the time", file=self._path)

    def _replace(self, text: bytes, wanted: bytes) -> bool:
        """Let the file say what is wanted if it says `text`; whether it did."""
        new = f".{self._name}.{os.urandom(6).hex()}.dibs"
        ours, file_name, spare = (self._folder, new), (self._folder, self._name), (self._folder, f"{new}2")
        mode = stat.S_IMODE(os.stat(self._name, dir_fd=self._folder).st_mode)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._folder)
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(wanted)
                file.flush()
                sync(file.fileno())
            with open(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC), "rb") as old:
                leased = lease(old.fileno())
                if leased is False or old.read() != text:
                    return False
                self._renaming.swap(ours, file_name, spare)
                is_old = os.stat(new, dir_fd=self._folder).st_ino == os.fstat(old.fileno()).st_ino
                if is_old and (not leased or _is_left(old.fileno())):
                    return True
                self._renaming.swap(ours, file_name, spare)
                return False
        finally:
            os.unlink(new, dir_fd=self._folder)


def _is_left(descriptor: int) -> bool:
    """Whether nobody opens the file to write any more, now that it has no name: a program that was on its way to it
    asks for the lease to be given up. It has arrived by the end of this time."""
    import fcntl
    import time

    end = time.monotonic() + ARRIVAL_SECONDS
    while time.monotonic() < end:
        if fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK:
            return False
        time.sleep(LOOK_SECONDS)
    return True
