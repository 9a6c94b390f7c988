"""Two verbs in one another's way, on purpose: the first has done everything but commit when the second begins.

What a verb reads must be what its decision is about also when another is at it, so each pair ends as if one had come
after the other. Who has to wait for whom is the store's affair; here it is only seen that nobody waits in vain.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import DibsError
from dibs.model import Request
from dibs.store.postgres.store import PostgresStore
from dibs.store.sql.transaction import Transaction
from dibs.value import Value
from tests.kit.postgres_server import PostgresServer
from tests.kit.waiting import PATIENCE_SECONDS

T = TypeVar("T")
Verb = Callable[[Board], object]

LOOK_SECONDS = 0.002
WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"


class PausingStore(PostgresStore):
    """A store that stops before it commits, says so, and goes on when it is told to."""

    def __init__(self, url: str) -> None:
        super().__init__(url, DEFAULTS, look_seconds=0)
        self.paused, self.go_on = threading.Event(), threading.Event()

    def call(self, function: str, *parameters: Any, repeatable: bool) -> dict[str, Any]:
        with self._pool.connection() as connection, connection.transaction():
            row = connection.execute(function, parameters).fetchone()
            assert row is not None
            self._pause()
        answer: dict[str, Any] = row[0]
        return answer

    def write(
        self,
        work: Callable[[Transaction], T],
        request: Request | None = None,
        kind: type[Value] | None = None,
        **kwargs: Any,
    ) -> T:
        def paused(t: Transaction) -> T:
            answer = work(t)
            self._pause()
            return answer

        return super().write(paused, request, kind, **kwargs)

    def _pause(self) -> None:
        self.paused.set()
        assert self.go_on.wait(PATIENCE_SECONDS), "nobody told it to go on"


class Stage:
    """A board with two handles: one that pauses, one that does not."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        self._store = PausingStore(server.url(database))
        self._pausing = Board(self._store, actor="first")
        self.usual = Board(PostgresStore(server.url(database), DEFAULTS, look_seconds=0), actor="second")
        self._watcher = server.connect(database)
        self._database = database
        self._threads = ThreadPoolExecutor(2)
        #: How often the second had to wait for the first, and how often it did not.
        self.waited = self.passed = 0

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()
        self._watcher.close()
        self._pausing.close()
        self.usual.close()

    def play(self, first: Verb, second: Verb) -> tuple[object, object]:
        """What both answered; a refusal counts as an answer."""
        self._store.paused.clear()
        self._store.go_on.clear()
        begun = self._threads.submit(_answer, first, self._pausing)
        self._await(lambda: self._store.paused.is_set() or begun.done())
        beside: Future[object] = self._threads.submit(_answer, second, self.usual)
        self._await(lambda: beside.done() or self._somebody_waits())
        self.passed += beside.done()
        self.waited += not beside.done()
        self._store.go_on.set()
        return begun.result(PATIENCE_SECONDS), beside.result(PATIENCE_SECONDS)

    def _somebody_waits(self) -> bool:
        return bool(self._watcher.execute(WAITING, [self._database]).fetchall())

    @staticmethod
    def _await(true: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not true():
            assert time.monotonic() < end, "neither done nor waiting"
            time.sleep(LOOK_SECONDS)  # bounded polling: the server tells nobody who waits


def _answer(verb: Verb, board: Board) -> object:
    try:
        return verb(board)
    except DibsError as refusal:
        return refusal
