"""A task list of Claude Code on disk: `~/.claude/tasks/LIST/N.json`, one file for each task.

A task knows its item by the entry `dibs` of its `metadata`. One without that entry is the item whose id is made from
the subject, the list and the number of the task, so that every session makes the same id. The client numbers its tasks
under the lock `.lock.lock`, a folder, and keeps the highest number of a deleted task in `.highwatermark`.
"""

from __future__ import annotations

import os
import time
import zlib

from dibs import check
from dibs.errors import Invalid, StoreUnavailable
from dibs.randomness import id_from_title
from dibs.text import json_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from dibs.agents.payload import Payload
    from dibs.model import Item

ENV_LIST, ENV_HOME = "CLAUDE_CODE_TASK_LIST_ID", "CLAUDE_CONFIG_DIR"
PENDING, IN_PROGRESS, COMPLETED, DELETED = "pending", "in_progress", "completed", "deleted"
#: The entry of a task's metadata that names its item.
KEY = "dibs"
LOCK, HIGHEST = ".lock.lock", ".highwatermark"
#: The most that is read of a task, and how many tasks of a list.
BYTES_MAX = 1 << 20
TASKS_MAX = 1000
#: How long another program may hold the lock of a list.
LOCK_SECONDS, LOCK_POLL_SECONDS = 5.0, 0.02
#: The list of a team is named after so many characters of its leader's session id.
TEAM_LENGTH = 8
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


class Task(Value):
    """`item` is the id of the task's item, whether or not the board has it. `is_linked`: the file names the item."""

    id: str
    item: str
    subject: str = ""
    description: str = ""
    status: str = PENDING
    blocked_by: tuple[str, ...] = ()
    is_linked: bool = False

    @property
    def title(self) -> str:
        return " ".join(self.subject.split())[: check.TITLE_LENGTH_MAX] or f"task {self.id}"


def folder_of(name: str) -> str:
    """The folder of a list. The client replaces the same characters in its name."""
    home = os.environ.get(ENV_HOME) or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(home, "tasks", "".join(char if char in _NAME else "-" for char in name))


def of_session(payload: Payload) -> str:
    """The folder of the list that a session works on: the one it was given, that of its team, or its own."""
    given = os.environ.get(ENV_LIST)
    if given:
        return folder_of(given)
    team = folder_of(f"session-{payload.session[:TEAM_LENGTH]}")
    return team if os.path.isdir(team) else folder_of(payload.session)


def find(folder: str, id: object) -> Task | None:
    """The task of that number; None if there is none, or its file cannot be read."""
    if not isinstance(id, str) or not id or not _NAME.issuperset(id):
        return None
    try:
        raw = json_text.loads(_read(os.path.join(folder, f"{id}.json"), BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return None
    return task(folder, id, raw) if isinstance(raw, dict) else None


def task(folder: str, id: str, raw: dict[str, Any]) -> Task:
    metadata, blocked_by = raw.get("metadata"), raw.get("blockedBy")
    linked = metadata.get(KEY) if isinstance(metadata, dict) else None
    subject = _text(raw, "subject")
    number = zlib.crc32(f"{os.path.basename(folder)}/{id}".encode())
    try:
        item = check.item_id(linked)
    except Invalid:
        linked, item = None, id_from_title(subject, f"{number:08x}")
    return Task(
        id=id,
        item=item,
        subject=subject,
        description=_text(raw, "description"),
        status=_text(raw, "status"),
        blocked_by=tuple(one for one in blocked_by if isinstance(one, str)) if isinstance(blocked_by, list) else (),
        is_linked=linked is not None,
    )


def begins(update: dict[str, Any]) -> bool:
    """Whether an update makes somebody work on the task: it is in progress, or gets an owner."""
    status = update.get("status")
    return status == IN_PROGRESS or (bool(update.get("owner")) and status not in (COMPLETED, PENDING, DELETED))


def gives_back(update: dict[str, Any]) -> bool:
    return update.get("status") in (PENDING, DELETED) or (update.get("owner") == "" and not begins(update))


def all_tasks(folder: str) -> list[Task]:
    try:
        names = sorted(os.listdir(folder))[:TASKS_MAX]
    except OSError:
        return []
    found = (find(folder, name.removesuffix(".json")) for name in names if name.endswith(".json"))
    return [one for one in found if one is not None]


def link(name: str, items: Iterable[Item]) -> tuple[str, dict[str, str]]:
    """Write a task for each item that the list does not have; return the folder, and the new tasks' numbers by item."""
    folder = folder_of(name)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    _lock(folder)
    try:
        tasks = all_tasks(folder)
        known = {task.item for task in tasks}
        number = max([_highest(folder), *(int(task.id) for task in tasks if task.id.isdigit())])
        added = {}
        for item in items:
            if item.id not in known:
                number += 1
                _write(folder, number, item)
                added[item.id] = str(number)
        return folder, added
    finally:
        os.rmdir(os.path.join(folder, LOCK))


def _write(folder: str, number: int, item: Item) -> None:
    """Write the file of a new task under another name, then link it to its own, which overwrites nothing."""
    fields = {
        "id": str(number),
        "subject": item.title,
        "description": item.body,
        "status": PENDING,
        "blocks": [],
        "blockedBy": [],
        "metadata": {KEY: item.id},
    }
    half = os.path.join(folder, f".{number}.{os.getpid()}")
    try:
        with open(half, "x", encoding="utf-8") as file:
            file.write(json_text.dumps(fields))
        os.link(half, os.path.join(folder, f"{number}.json"))
    finally:
        if os.path.lexists(half):
            os.unlink(half)


def _lock(folder: str) -> None:
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return os.mkdir(os.path.join(folder, LOCK))
        except FileExistsError:
            if time.monotonic() > end:
                raise StoreUnavailable(
                    f"another program holds the lock {folder}/{LOCK}; try again, or remove it if none runs"
                ) from None
            time.sleep(LOCK_POLL_SECONDS)


def _highest(folder: str) -> int:
    try:
        found = _read(os.path.join(folder, HIGHEST), 32).strip()
    except (OSError, ValueError):
        return 0
    return int(found) if found.isdigit() else 0


def _read(path: str, bytes_max: int) -> str:
    """A pipe that somebody put in the place of a file must not block a hook."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return (file.read(bytes_max) or b"").decode()


def _text(raw: dict[str, Any], name: str) -> str:
    """JSON may hold half of a character, which no board can store."""
    found = raw.get(name)
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) else ""
