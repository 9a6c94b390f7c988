"""A dependency that another client adds while an item is told to depend on it: it is not locked, and may end unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.errors import Invalid
from dibs.store.postgres.transaction import PostgresTransaction
from dibs.testing.invariants import assert_sound
from tests.kit.postgres import PostgresHarness
from tests.kit.postgres_server import PostgresServer


@pytest.fixture
def harness(postgres_server: PostgresServer, folder: Path) -> Iterator[PostgresHarness]:
    with PostgresHarness(postgres_server, postgres_server, folder, {}) as harness:
        yield harness


@pytest.mark.parametrize(
    "depend",
    [
        lambda board: board.add("waits", id="late", depends_on=["plan"]),
        lambda board: board.edit("early", depends_on=["plan"]),
    ],
    ids=["add", "edit"],
)
def test_a_dependency_that_is_added_meanwhile_does_not_block_for_ever(
    harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch, depend: Callable[[Board], object]
) -> None:
    board, other = harness.board(), harness.board()
    board.add("early", id="early")
    session = other.start_session("coder").id
    lock_items, write = PostgresTransaction.lock_items, board.store.write  # type: ignore[attr-defined]  # of PostgreSQL
    met: list[str] = []

    def lock_then_add(t: PostgresTransaction, items: Iterable[str]) -> None:
        lock_items(t, items)
        if not met:
            met.append("added")
            other.add("plan", id="plan")

    def end_before_commit(work: Callable[[Any], Any], *asked: Any, **named: Any) -> Any:
        def worked(t: Any) -> Any:
            answer = work(t)
            met.append("ended")
            other.claim("plan", session=session)
            other.done("plan", session=session)
            return answer

        return write(worked, *asked, **named)

    monkeypatch.setattr(PostgresTransaction, "lock_items", lock_then_add)
    monkeypatch.setattr(board.store, "write", end_before_commit)
    with pytest.raises(Invalid, match="depends on plan, which does not exist"):
        depend(board)
    assert met == ["added"]
    monkeypatch.undo()
    assert_sound(other)
