"""A delivery of GitHub's webhook: what it says about a check, about a pull request of an item, and about a subject."""

from __future__ import annotations

from dibs.github import checks, follow, payload
from dibs.github.apply import converge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.github.apply import Outcome
    from dibs.github.policy import Policy


def apply(board: Board, policy: Policy, event: str, data: object, delivery: str) -> Outcome | None:
    """Do what it leads to; None for a delivery that is about nothing dibs follows."""
    check = checks.from_webhook(event, data)
    followed = None if check is None else follow.check(board, check, policy)
    fact = payload.from_webhook(event, data, policy.approve_label)
    if fact is None or (check is not None and followed is not None):
        # A build of an item's own branch is that item's, and no work of its own.
        return followed
    fact, followed = follow.pull(board, fact, policy)
    found = converge(board, fact, policy, delivery=delivery)
    return found if followed is None or found.did else followed
