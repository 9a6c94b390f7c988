"""The item and the session that the calls of `write_calls` and `refused_calls` are about."""

from __future__ import annotations

from dibs.model import Item
from dibs.testing.conformance.asking import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board
    from dibs.model import Ended
    from dibs.testing.harness import Harness


class Call:
    """`ask` makes the call, `effects` counts how often it took effect, `is_true` judges an answer against the board."""

    def __init__(self, ask: Callable[..., Any], effects: Callable[[], int], is_true: Callable[[Any], bool]) -> None:
        self.ask, self.effects, self.is_true = ask, effects, is_true


class Subject:
    """An item, a session that acts on it, and the board as somebody else sees it."""

    def __init__(self, harness: Harness, board: Board, id: str) -> None:
        self.harness, self.board, self.id = harness, board, id
        self.me = session(board)
        #: The token of the first claim that the session had.
        self.under = 0

    def add(self, **fields: Any) -> None:
        # A type of its own: `next` can be asked for this very item.
        self.board.add("do it", id=self.id, type=self.id, **fields)

    def claim(self, ttl_seconds: float = 7200) -> None:
        grant = self.board.claim(self.id, session=self.me, ttl_seconds=ttl_seconds)
        self.under = self.under or grant.claim.token

    def held(self, **fields: Any) -> None:
        """The item, claimed."""
        self.add(**fields)
        self.claim()

    def drafted(self) -> None:
        """The item, waiting for approval of a draft."""
        self.held()
        self.board.submit(self.id, session=self.me, draft="A")

    def taken_by_another(self) -> None:
        self.board.claim(self.id, session=session(self.board, "other"))

    def count(self, kind: str, item: str | None = None) -> int:
        return sum(event.kind == kind for event in self.board.events(item=item or self.id))

    def is_item(self, answer: Any) -> bool:
        """Whether the answer is the item as it stands. Nobody else changes it."""
        return same_item(answer, self.board.get(self.id).item)

    def is_claim(self, answer: Any) -> bool:
        """Whether the answer is the claim that there is, which is a new one, and not one that was renewed."""
        is_there = (answer.claim.token, answer.claim.session) == (self.token, self.me)
        return is_there and not getattr(answer, "renewed", False)

    def is_end(self, answer: Ended) -> bool:
        return answer.run in self.board.runs(item=self.id)

    @property
    def token(self) -> int | None:
        claim = self.board.get(self.id).claim
        return None if claim is None else claim.token


def same_item(answer: Any, item: Item) -> bool:
    """An answer may say more than the item."""
    return all(getattr(answer, name) == getattr(item, name) for name in Item._fields)
