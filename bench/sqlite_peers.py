"""Job queues that keep their jobs in a SQLite file, as durable as a board: WAL, synchronous FULL.

Neither of them keeps a history, a lease or a token. litequeue marks a job as taken and then as done; huey deletes a job
when it is taken, so that its end is no commit and a crash loses it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

#: Takes a job; ends the job that was taken.
Verbs = tuple[Callable[[], Any], Callable[[Any], object]]


def installed() -> list[str]:
    """`make bench` installs them."""
    return [name for name in ("litequeue", "huey") if importlib.util.find_spec(name) is not None]


def fill(name: str, path: str, jobs: int) -> None:
    if name == "litequeue":
        queue = _litequeue(path)
        with queue.transaction():
            for _ in range(jobs):
                queue.put("a job")
        queue.close()
    else:
        storage = _huey(path)
        with storage.db(commit=True) as cursor:
            for _ in range(jobs):
                cursor.execute("INSERT INTO task (queue, data, priority) VALUES ('bench', ?, 0)", (b"a job",))
        storage.close()


def verbs(name: str, path: str) -> Verbs:
    if name == "litequeue":
        queue = _litequeue(path)
        return queue.pop, lambda taken: queue.done(taken.message_id)
    return _huey(path).dequeue, lambda taken: None


def _litequeue(path: str) -> Any:
    from litequeue import LiteQueue

    queue = LiteQueue(path, timeout=30)
    queue.conn.execute("PRAGMA synchronous = FULL")
    return queue


def _huey(path: str) -> Any:
    from huey.storage import SqliteStorage

    return SqliteStorage("bench", path, fsync=True, timeout=30)
