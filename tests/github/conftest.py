"""A board, and what GitHub says about one repository."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dibs.board import Board
from dibs.github import checks, out, payload
from dibs.github import delivery as deliveries
from dibs.github.apply import Outcome
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

    def __init__(self, board: Board, policy: Policy, prefix: str = "d-") -> None:
        self.board, self.policy = board, policy
        self._prefix, self._numbers = prefix, itertools.count()

    def tell(self, told: Any, event: str | None = None, delivery: str | None = None) -> Outcome:
        known = dict.fromkeys((*payload.EVENTS, *checks.EVENTS))
        event = event or next(name for name in known if (name.removesuffix("s") if name != "status" else "sha") in told)
        delivery = delivery or f"{self._prefix}{next(self._numbers)}"
        outcome = deliveries.apply(self.board, self.policy, event, told, delivery)
        assert outcome is not None, told
        return outcome

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
