"""What an `add` asks of the database while it holds the lock does not grow with what its items depend on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.errors import Invalid
from dibs.store.sqlite.store import SqliteStore
from dibs.store.sqlite.transaction import SqliteTransaction

ITEMS = 60


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    with Board(SqliteStore(str(tmp_path / "board.db"), DEFAULTS, create=True)) as board:
        yield board


def chained(prefix: str, needs: int) -> list[dict[str, Any]]:
    """Items of which each needs so many of those before it."""
    return [
        {
            "id": f"{prefix}{number}",
            "title": "a link",
            "depends_on": [f"{prefix}{before}" for before in range(max(0, number - needs), number)],
        }
        for number in range(ITEMS)
    ]


def statements(monkeypatch: pytest.MonkeyPatch, board: Board, items: list[dict[str, Any]]) -> int:
    asked: list[str] = []
    with monkeypatch.context() as patch:
        for method in ("one", "all", "run", "run_one"):
            original = getattr(SqliteTransaction, method)

            def counted(t: Any, statement: str, *given: Any, original: Any = original, **parameters: Any) -> Any:
                asked.append(statement)
                return original(t, statement, *given, **parameters)

            patch.setattr(SqliteTransaction, method, counted)
        board.add_many(items)
    return len(asked)


def test_the_statements_of_an_add_do_not_grow_with_the_dependencies(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = statements(monkeypatch, board, chained("few-", 1))
    assert statements(monkeypatch, board, chained("many-", 50)) == few


def test_nor_with_those_of_the_items_that_lead_into_a_cycle(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """One search finds the cycle, one names its item: not one for each item that leads into it."""
    leading = [{"id": f"x-{number}", "title": "leads to it", "depends_on": ["y"]} for number in range(ITEMS)]
    cycle = [{"id": one, "title": "in it", "depends_on": [other]} for one, other in (("y", "z"), ("z", "y"))]
    searches: list[str] = []
    one = SqliteTransaction.one

    def counted(t: SqliteTransaction, statement: str, /, **parameters: Any) -> Any:
        if statement == "in_a_cycle":
            searches.append(parameters["item"])
        return one(t, statement, **parameters)

    monkeypatch.setattr(SqliteTransaction, "one", counted)
    with pytest.raises(Invalid, match="would depend on itself") as refused:
        board.add_many([*leading, *cycle])
    assert searches == [refused.value.facts["item"]] == ["y"]
    assert board.list() == ()
