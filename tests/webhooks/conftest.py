"""A receiver, and boards that call it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dibs.board import Board, connect
from tests.kit import sqlite
from tests.webhooks.receiver import Receiver, receiving

if TYPE_CHECKING:
    from dibs.testing.clock import Clock


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "board.db")


@pytest.fixture
def board(store: str) -> Iterator[Board]:
    with connect(store, create=True, folder=str(Path(store).parent)) as found:
        yield found


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[tuple[Board, Clock]]:
    with sqlite.harness(tmp_path) as harness:
        harness.clock.freeze()
        yield harness.board(), harness.clock
