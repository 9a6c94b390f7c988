"""The actions of `dibs.rules.actions` in a terminal: whom they are offered to, and how they are carried out.

A caller sees only what its role may do, and of an item only what fits its status. Every action is confirmed, and is
about what was read: the revision of the item, or the token of the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.errors import DibsError
from dibs.model import ROLES
from dibs.rules.actions import ACTIONS, by_key
from dibs.verbs import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.board import Board
    from dibs.model import Detail, Item
    from dibs.model.dashboard import Brief, Bulk
    from dibs.rules.actions import Action

KEYS = frozenset(by_key())
#: The keys that act on a selection: no words are asked for, and of each item only the revision was read.
BULK_KEYS = frozenset(action.key for action in ACTIONS if not action.reads)


def role_of(action: Action) -> str:
    """The least role that the action is offered to."""
    return action.role or BY_NAME[action.verb].role


def is_for(action: Action, role: str) -> bool:
    return ROLES.index(role) >= ROLES.index(role_of(action))


def may(verb: str, role: str) -> bool:
    """Whether a key of this role may call the verb."""
    return ROLES.index(role) >= ROLES.index(BY_NAME[verb].role)


def call_all(action: Action, board: Board, items: Sequence[Brief]) -> Bulk:
    """Call the verb on all of these, each as it was read."""
    return board.bulk(action.verb, items=[{"id": item.id, "revision": item.revision} for item in items])


def call(action: Action, board: Board, read: Detail, answer: str) -> None:
    """Call the verb on exactly what was read: what changed meanwhile is refused."""
    if not action.reads:
        # The verb alone takes no revision.
        refused = board.bulk(action.verb, items=[{"id": read.item.id, "revision": read.item.revision}]).refused
        if refused:
            raise DibsError(refused[0].detail)
        return
    known = {"revision": read.item.revision, "token": token_of(read)}
    given = {name: known[name] for name in action.reads if known[name] is not None}
    asked = {} if action.asks is None else {action.asks[0]: answer}
    getattr(board, action.verb)(read.item.id, **given, **action.args, **asked)


def token_of(read: Detail) -> int | None:
    """The token of the live claim, or else that of the run whose draft waits."""
    if read.claim is not None:
        return read.claim.token
    return next((run.token for run in read.runs if run.outcome == "submitted"), None)


def fitting_some(items: Sequence[Brief], role: str) -> list[Action]:
    """What can be done to some of the selected items."""
    return [one for one in ACTIONS if one.key in BULK_KEYS and is_for(one, role) and any(map(one.fits, items))]


def fitting(item: Brief | Item, role: str) -> list[Action]:
    return [action for action in ACTIONS if is_for(action, role) and action.fits(item)]
