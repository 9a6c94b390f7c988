"""The assignment service's three calls as dibs has them: in Python, on any board, and in SQL."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import psycopg

from dibs.board import Board
from dibs.errors import AgentAtCapacity
from dibs.handle import ClaimHandle
from tests.sources.assignment_service.worker import WorkItem


class Leased:
    def __init__(self, id: str, work_type: str, payload: dict[str, Any], claim: ClaimHandle | None = None) -> None:
        self.id, self.work_type, self.payload, self.claim = id, work_type, payload, claim


class InPython:
    def __init__(self, board: Board, agent: str, instance: str) -> None:
        self._session = board.session(agent=agent, id=instance)

    def __enter__(self) -> Self:
        self._session.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._session.__exit__(*error)

    def lease_next_work_item(self, agent: str) -> WorkItem | None:
        try:
            claim = self._session.next()
        except AgentAtCapacity:
            return None
        return None if claim is None else Leased(claim.item.id, claim.item.type, dict(claim.item.payload), claim)

    def release_work_item(self, work_item: WorkItem) -> None:
        _claim(work_item).release("timeout")

    def complete_work_item(self, work_item: WorkItem, *, outcome: str) -> None:
        if outcome == "success":
            _claim(work_item).done()
        else:
            _claim(work_item).fail(outcome)


class InSql:
    def __init__(self, url: str, agent: str, instance: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._instance = instance

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def lease_next_work_item(self, agent: str) -> WorkItem | None:
        asked = "SELECT id, type, metadata FROM claim_next_work_item(%s, %s)"
        row = self._connection.execute(asked, [agent, self._instance]).fetchone()
        return None if row is None else Leased(*row)

    def release_work_item(self, work_item: WorkItem) -> None:
        self._is_true("SELECT release_work_item(%s, %s, 'timeout')", work_item.id, self._instance)

    def complete_work_item(self, work_item: WorkItem, *, outcome: str) -> None:
        self._is_true("SELECT complete_work_item(%s, %s, %s)", work_item.id, self._instance, outcome)

    def _is_true(self, words: str, *values: str) -> None:
        assert self._connection.execute(words.encode(), values).fetchone() == (True,)


def _claim(work_item: WorkItem) -> ClaimHandle:
    assert isinstance(work_item, Leased)
    assert work_item.claim is not None
    return work_item.claim
