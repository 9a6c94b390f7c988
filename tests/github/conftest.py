"""A board, and what GitHub says about one repository."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.github import payload
from dibs.github.apply import Outcome, converge
from dibs.github.policy import Policy
from dibs.model import Item
from tests.kit import sqlite

ISSUE, PULL, BUILD = "github:acme/shop#12", "github:acme/shop#20", "github:acme/shop/workflows/ci.yml@main"


class GitHub:
    """Tells a board what happened."""

    def __init__(self, board: Board, policy: Policy, prefix: str = "d-") -> None:
        self.board, self.policy = board, policy
        self._prefix, self._numbers = prefix, itertools.count()

    def tell(self, told: Any, event: str | None = None, delivery: str | None = None) -> Outcome:
        event = event or next(name for name in payload.EVENTS if name.removesuffix("s") in told)
        fact = payload.from_webhook(event, told, self.policy.approve_label)
        assert fact is not None, told
        return converge(self.board, fact, self.policy, delivery=delivery or f"{self._prefix}{next(self._numbers)}")

    def item(self, subject: str = ISSUE) -> Item:
        (found,) = self.board.list(subject=subject, limit=2)
        return found

    def items(self) -> tuple[Item, ...]:
        return tuple(self.board.list(limit=1000))


def claimed(board: Board, item: str) -> tuple[str, int]:
    """A session that holds the item, and its token."""
    session = board.start_session("coder").id
    return session, board.claim(item, session=session).claim.token


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHub]:
    with sqlite.harness(tmp_path) as harness:
        yield GitHub(harness.board(), Policy())
