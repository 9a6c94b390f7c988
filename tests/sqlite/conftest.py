"""A store in a file of its own, and the board on it as other processes see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dibs.board import Board
from dibs.config import DEFAULTS
from dibs.store.sqlite.store import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "board.db"), DEFAULTS, create=True)
    yield store
    store.close()


@pytest.fixture
def board(store: SqliteStore) -> Board:
    return Board(store, actor="tester")
