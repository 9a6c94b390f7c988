"""A board, and what GitHub says about one repository."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.github import out, payload
from dibs.github.apply import Outcome, RecentEnds
from dibs.github.out_policy import Out
from dibs.github.policy import Policy
from dibs.model import Item
from dibs.testing.clock import FileClock
from tests.github.examples import description
from tests.github.fake_writes import WritableApi
from tests.github.payloads import issue
from tests.kit import sqlite

#: What the policy of `item` is to write.
EVERYTHING = Out(comment=True, label="dibs: in progress", assign=(("coder", "octocat"),))
ISSUE, PULL, BUILD = "github:acme/shop#12", "github:acme/shop#20", "github:acme/shop/workflows/ci.yml@main"


class GitHub:
    """Tells a board what happened."""

    def __init__(self, board: Board, policy: Policy) -> None:
        self.board, self.policy = board, policy
        self._ends, self._numbers = RecentEnds(), itertools.count()

    def tell(self, told: Any, event: str | None = None, delivery: str | None = None) -> Outcome:
        event = event or next(name for name in payload.EVENTS if name.removesuffix("s") in told)
        fact = payload.from_webhook(event, told, self.policy.approve_label)
        assert fact is not None, told
        return self._ends.converge(self.board, fact, self.policy, delivery or f"d-{next(self._numbers)}")

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


@pytest.fixture
def api() -> Iterator[WritableApi]:
    with WritableApi(description()) as fake:
        fake.put_issue(12)
        yield fake
        assert fake.mistakes == []


@pytest.fixture
def item(github: GitHub, api: WritableApi) -> str:
    """The item of an issue, on a board whose policy is to write everything."""
    github.policy = Policy(out=EVERYTHING)
    github.tell(issue())
    return github.item().id


@pytest.fixture
def lapse(tmp_path: Path) -> Callable[[], None]:
    """The lease of whoever is making a comment ends."""
    return lambda: FileClock(tmp_path / "clock").advance(out.LEASE_SECONDS + 1)
