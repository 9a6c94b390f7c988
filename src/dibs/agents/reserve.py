"""Opt-in: a file that an agent is about to edit is added to the resources of the item that the agent holds.

Only a person switches it on, in the environment of the client. Only a hook that may open the board itself can do it:
what a keeper would add later comes too late for the edit.
"""

from __future__ import annotations

import os

from dibs.config import ENV_RESERVE_EDITS
from dibs.errors import DibsError, ResourceBusy
from dibs.rules.resources import covering, normalize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.access import Access
    from dibs.agents.state import Record, State
    from dibs.board import Board
    from dibs.model import Holding

ON = ("on", "1", "yes")


def is_on() -> bool:
    return os.environ.get(ENV_RESERVE_EDITS, "").lower() in ON


def objection(access: Access, state: State, record: Record, places: list[str]) -> str:
    """Add the places to the item that the session works on; return why the edit is denied, or an empty text."""
    board = access.board
    mine = None if board is None else _worked_on(board, state.session, record.parent)
    if board is None or mine is None or mine.claim is None:
        return ""
    # A resource with a wildcard is cut to a folder, and must not reserve all of it for a file called `[id].tsx`.
    new = [one for one in places if normalize(one) == one and not covering(one, mine.item.resources)]
    if not new:
        return ""
    try:
        board.edit(mine.item.id, add_resources=new, session=mine.claim.session, token=mine.claim.token)
    except ResourceBusy as refusal:
        facts = refusal.facts
        holder = facts["holder"]
        # A parent and its subagents may write what the other one reserves.
        if all(one.session != holder["session"] for one in access.reserved(state, record)):
            return ""
        return (
            f"dibs: {holder['agent']} (session {holder['session']}) reserves {facts['resource']} for"
            f" {facts['held_for']}. Do not edit it before that is done; for other work: dibs next"
        )
    except DibsError:
        pass  # the board is busy, the item is approved, or has as many resources as it can have
    return ""


def _worked_on(board: Board, session: str, parent: str | None) -> Holding | None:
    """The only item of the session, or else of its parent, for which it works. Of several, nobody knows which."""
    held = [line for line in board.who() if line.claim is not None]
    for one in (session, parent):
        mine = [line for line in held if line.claim is not None and line.claim.session == one]
        if mine:
            return mine[0] if len(mine) == 1 else None
    return None
