"""The limit for a SQLite board: a loop that claims the first ready item and ends it as done through bare apsw.

Schema, indexes, connection settings, fair lock, bell and written rows are those of a board; nothing else is read, and
nothing is decided.
"""

from __future__ import annotations

import time
from typing import Any

from dibs.config import DEFAULTS
from dibs.store.sqlite.bell import Bell
from dibs.store.sqlite.database import open_database
from dibs.store.sqlite.lock import FairLock

SESSION = "raw"
TTL = 1_800_000

FIRST = """
SELECT seq, id, token, revision FROM items INDEXED BY items_ready
WHERE status = 'ready' AND offered_to IS NULL AND project = 'default' AND type = 'task' AND action = 'task'
  AND approved = 0
ORDER BY priority DESC, seq LIMIT 1
"""
MOVE = """
UPDATE items SET status = ?, updated_at = ?, attempts = 1, strikes = 0, failures = 0, token = ?, revision = ?,
                 not_before = NULL, needs_approval = 0, approved = 0, offered_to = NULL, offer_expires_at = NULL
WHERE id = ? AND revision = ?
"""
CLAIM = "INSERT INTO claims VALUES (?, ?, 'raw', 'bench', ?, ?, ?, ?, 1800.0, 0)"
RUN = """
INSERT INTO runs (item, token, session, agent, started_at, links, cost) VALUES (?, ?, 'raw', 'bench', ?, '{}', '{}')
"""
EVENT = """
INSERT INTO events (item, number, kind, at, status, token, actor, session, agent, data)
VALUES (?, ?, ?, ?, ?, ?, 'bench', 'raw', 'bench', ?)
"""
UNCLAIM = "DELETE FROM claims WHERE item = ? AND token = ?"
END_RUN = "UPDATE runs SET ended_at = ?, outcome = 'done' WHERE item = ? AND token = ? AND outcome IS NULL"


class RawBoard:
    def __init__(self, path: str) -> None:
        self._lock = FairLock(path, DEFAULTS.lock_wait_seconds)
        self._bell = Bell(path)
        self.connection = open_database(path, DEFAULTS, self._lock, create=False)
        self._cursor = self.connection.cursor()

    def next(self) -> tuple[str, int, int]:
        """The item that was claimed, its token and its revision."""
        self._begin()
        now, run = time.time_ns() // 1_000_000, self._cursor.execute
        first: Any = run(FIRST).fetchone()
        _, item, token, revision = first
        token, revision = token + 1, revision + 1
        run(MOVE, ("in_progress", now, token, revision, item, revision - 1))
        run(CLAIM, (item, token, now, now, now + TTL, now + TTL))
        run(RUN, (item, token, now))
        run(EVENT, (item, revision, "claimed", now, "in_progress", token, '{"ttl_seconds": 1800.0, "deadline_at": 1}'))
        self._end()
        return item, token, revision

    def done(self, item: str, token: int, revision: int) -> None:
        self._begin()
        now, run, revision = time.time_ns() // 1_000_000, self._cursor.execute, revision + 1
        run(MOVE, ("done", now, token, revision, item, revision - 1))
        run(UNCLAIM, (item, token))
        run(END_RUN, (now, item, token))
        run(EVENT, (item, revision, "done", now, "done", token, '{"reason": null}'))
        self._end()

    def close(self) -> None:
        self.connection.close()
        self._lock.forget()
        self._bell.close()

    def _begin(self) -> None:
        self._lock.acquire()
        self._cursor.execute("BEGIN IMMEDIATE")

    def _end(self) -> None:
        self._cursor.execute("COMMIT")
        self._lock.release()
        self._bell.ring()
