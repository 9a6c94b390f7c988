"""What a person decides about an item that waits for approval: do it, it is done, do it again, never.

An agent never approves its own draft: whoever held the run that was submitted is not the one to say yes to it.
"""

from __future__ import annotations

from dibs.errors import Forbidden, ItemNotClaimable
from dibs.model import DONE, IN_PROGRESS, REJECTED
from dibs.rules import table
from dibs.rules.decision import State, Step, step
from dibs.rules.resting import rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def approve(now: int, state: State, *, actor: str, comment: str | None, done: bool) -> Step:
    """The item may be done by an agent that is allowed to, or, with `done`, is done with its draft."""
    table.require("approve", state.item)
    run = state.run
    if run is not None and run.outcome == "submitted" and actor == run.agent:
        raise Forbidden(f"{actor} drafted {state.item.id} and cannot approve it", item=state.item.id, agent=actor)
    changes: dict[str, Any] = {"needs_approval": False, "approved": True}
    status = DONE if done else rest(state.item.replace(needs_approval=False), now, blocked=bool(state.blockers))
    return step(state, kind="approved", at=now, status=status, actor=actor, data={"comment": comment}, **changes)


def send_back(now: int, state: State, *, actor: str, comment: str) -> Step:
    """Not like this: the item goes back to whoever takes it next, with the comment."""
    table.require("send_back", state.item)
    status = rest(state.item.replace(needs_approval=False), now, blocked=bool(state.blockers))
    changes: dict[str, Any] = {"needs_approval": False, "approved": False}
    return step(state, kind="sent_back", at=now, status=status, actor=actor, data={"comment": comment}, **changes)


def reject(now: int, state: State, *, actor: str, reason: str) -> Step:
    """Not at all. What somebody holds is its holder's to reject."""
    table.require("reject", state.item)
    if state.item.status == IN_PROGRESS:
        raise ItemNotClaimable(
            f"{state.item.id} is in progress; only its holder can reject it now",
            item=state.item.id,
            status=IN_PROGRESS,
            why="its holder decides",
        )
    return step(state, kind="rejected", at=now, status=REJECTED, actor=actor, data={"reason": reason})
