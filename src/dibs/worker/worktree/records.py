"""The records of the worktrees that dibs made, in the folder `dibs/worktrees` of the git directory.

An item has three files there. `ITEM.lock` is locked by the worker that uses the worktree, so the kernel says whether
that worker lives. `ITEM.json` is the record. `ITEM.output` has the last output of the item's command, so that the
output outlives a worker that was killed.
"""

from __future__ import annotations

import contextlib
import os

from dibs.model import Owner
from dibs.system import durable, locks
from dibs.text import json_text, wire
from dibs.value import Value
from dibs.worker.output import LAST_BYTES, LAST_LINES, as_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.model.kinds import Instant

FOLDER = os.path.join("dibs", "worktrees")
#: How long the lock of all records may be waited for. It is held for a few calls of git that do not touch files.
COUNT_SECONDS = 60.0


class Record(Value):
    """A worktree that dibs made for an item. `base` is the name of a commit, `base_commit` the commit that it had.

    `is_complete` is false until git has checked everything out. `pid`, `agent` and `session` are those of the worker
    that used it last, `outcome` is how its run ended. `group` is the process group of its command, `leader` the first
    process of that group.
    """

    item: str
    branch: str
    base: str
    base_commit: str
    path: str
    host: str
    pid: int
    agent: str
    session: str
    made_at: Instant
    is_complete: bool = False
    is_kept: bool = False
    outcome: str | None = None
    group: int | None = None
    leader: Owner | None = None


class Records:
    def __init__(self, common: str) -> None:
        self._folder = os.path.join(common, FOLDER)

    def make_folder(self) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def lock(self, item: str) -> locks.FileLock:
        return locks.FileLock(self._path(item, "lock"))

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """No other process adds a record in the meantime."""
        # No item has a name that begins with a dot.
        lock = locks.FileLock(self._path("", "lock"))
        if not locks.within(COUNT_SECONDS, lock.acquire):
            raise TimeoutError(0, "another process holds the lock of all worktrees")
        try:
            yield
        finally:
            lock.release()

    def read(self, item: str) -> Record | None:
        """The record of an item. A file that is no record counts as none."""
        try:
            with open(self._path(item, "json"), encoding="ascii") as file:
                return wire.decode(Record, json_text.loads(file.read()))
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def all(self) -> list[Record]:
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        items = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return [record for record in map(self.read, items) if record is not None]

    def write(self, record: Record) -> None:
        durable.replace(self._path(record.item, "json"), f"{json_text.line(wire.encode(record))}\n".encode("ascii"))

    def remove(self, item: str) -> None:
        """Remove the files of an item. The caller has its lock."""
        for kind in ("json", "output", "lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(item, kind))

    def output(self, item: str) -> str:
        """The last lines that the item's latest command has written."""
        try:
            with open(self._path(item, "output"), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
                return "\n".join(as_text(file.read()).strip().splitlines()[-LAST_LINES:])
        except OSError:
            return ""

    def new_output(self, item: str) -> OutputFile:
        return OutputFile(self._path(item, "output"))

    def _path(self, item: str, kind: str) -> str:
        return os.path.join(self._folder, f"{item}.{kind}")


class OutputFile:
    """The end of a command's output in a file, which never has more than twice what is read of it."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 - closed by `close`
        self._size = 0

    def add(self, line: str) -> None:
        data = line.encode("utf-8", "replace")[-LAST_BYTES:] + b"\n"
        with contextlib.suppress(OSError, ValueError):  # a full disk is no reason to stop reading the output
            if self._size + len(data) > 2 * LAST_BYTES:
                self._file.seek(self._size - min(self._size, LAST_BYTES))
                end = self._file.read()
                self._file.seek(0)
                self._file.write(end)
                self._file.truncate()
                self._size = len(end)
            self._size += self._file.write(data) or 0

    def close(self) -> None:
        self._file.close()
