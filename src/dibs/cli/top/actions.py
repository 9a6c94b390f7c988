"""What a person can do to an item, under the keys that the dashboard has for it.

A caller sees only what its role may do, and of an item only what fits its status. Every action is confirmed, and is
about what was read: the revision of the item, or the token of the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.errors import DibsError
from dibs.model import (
    BLOCKED,
    CANCELLED,
    DONE,
    FAILED,
    IN_PROGRESS,
    PARKED,
    PENDING_APPROVAL,
    READY,
    REJECTED,
    ROLES,
    SCHEDULED,
)
from dibs.value import Value
from dibs.verbs import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.board import Board
    from dibs.model import Detail, Item
    from dibs.model.dashboard import Brief, Bulk

ALL_OPEN = (PENDING_APPROVAL, BLOCKED, SCHEDULED, READY, IN_PROGRESS, PARKED)


class Action(Value):
    """`asks` is the parameter that the person has to fill in, `reads` are those that say what was read; without them,
    the verb is called by `bulk`."""

    key: str
    verb: str
    label: str
    statuses: tuple[str, ...]
    asks: str | None = None
    reads: tuple[str, ...] = ()
    args: dict[str, Any] = {}
    needs_draft: bool = False
    role: str | None = None

    def fits(self, item: Brief | Item) -> bool:
        return item.status in self.statuses and (item.token > 0 or not self.needs_draft)

    def is_for(self, role: str) -> bool:
        return may(self.verb, role) if self.role is None else ROLES.index(role) >= ROLES.index(self.role)

    def call_all(self, board: Board, items: Sequence[Brief]) -> Bulk:
        """Call the verb on all of these, each as it was read."""
        return board.bulk(self.verb, items=[{"id": item.id, "revision": item.revision} for item in items])

    def call(self, board: Board, read: Detail, answer: str) -> None:
        """Call the verb on exactly what was read: what changed meanwhile is refused."""
        if not self.reads:
            # The verb alone takes no revision.
            refused = board.bulk(self.verb, items=[{"id": read.item.id, "revision": read.item.revision}]).refused
            if refused:
                raise DibsError(refused[0].detail)
            return
        known = {"revision": read.item.revision, "token": token_of(read)}
        given = {name: known[name] for name in self.reads if known[name] is not None}
        asked = {} if self.asks is None else {self.asks: answer}
        getattr(board, self.verb)(read.item.id, **given, **self.args, **asked)


def may(verb: str, role: str) -> bool:
    """Whether a key of this role may call the verb."""
    return ROLES.index(role) >= ROLES.index(BY_NAME[verb].role)


def token_of(read: Detail) -> int | None:
    """The token of the live claim, or else that of the run whose draft waits."""
    if read.claim is not None:
        return read.claim.token
    return next((run.token for run in read.runs if run.outcome == "submitted"), None)


def _action(key: str, verb: str, label: str, *statuses: str, **more: Any) -> Action:
    return Action(key=key, verb=verb, label=label, statuses=statuses, **more)


ACTIONS = (
    _action("a", "approve", "approve", PENDING_APPROVAL, reads=("revision", "token")),
    _action(
        "A",
        "approve",
        "approve as done",
        PENDING_APPROVAL,
        reads=("revision", "token"),
        args={"done": True},
        needs_draft=True,
    ),
    _action("b", "send_back", "send back", PENDING_APPROVAL, asks="comment", reads=("revision",)),
    # An agent rejects what it holds; about a draft, only an admin decides.
    _action("R", "reject", "reject", PENDING_APPROVAL, asks="reason", reads=("revision",), role="admin"),
    _action("r", "retry", "retry", FAILED),
    _action("r", "reopen", "reopen", DONE, REJECTED, CANCELLED),
    _action("p", "park", "park", READY, BLOCKED, SCHEDULED),
    _action("p", "unpark", "unpark", PARKED),
    _action("F", "force_release", "force-release", IN_PROGRESS, asks="reason", reads=("token",)),
    _action("c", "cancel", "cancel", *ALL_OPEN),
)
KEYS = frozenset(action.key for action in ACTIONS)
#: The keys that act on a selection.
BULK_KEYS = frozenset("rpc")


def fitting_some(items: Sequence[Brief], role: str) -> list[Action]:
    """What can be done to some of the selected items."""
    return [one for one in ACTIONS if one.key in BULK_KEYS and one.is_for(role) and any(map(one.fits, items))]


def fitting(item: Brief | Item, role: str) -> list[Action]:
    return [action for action in ACTIONS if action.is_for(role) and action.fits(item)]
