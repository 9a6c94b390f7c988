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

    from dibs.model import Item, Run


def approve(
    now: int,
    state: State,
    draft: Run | None,
    *,
    actor: str,
    comment: str | None,
    done: bool,
    token: int | None = None,
) -> Step:
    """The item may be done by an agent that is allowed to, or, with `done`, is done with its draft: that of the run
    `draft`, the latest that was submitted. With a token, only if that is the run whose draft was read."""
    table.require("approve", state.item)
    if token is not None and (draft is None or token != draft.token):
        raise _another_draft(state.item, draft, token)
    if draft is not None and actor == draft.agent:
        raise Forbidden(f"{actor} drafted {state.item.id} and cannot approve it", item=state.item.id, agent=actor)
    changes: dict[str, Any] = {"needs_approval": False, "approved": True}
    status = DONE if done else rest(state.item.replace(needs_approval=False), now, blocked=bool(state.blockers))
    said = {"comment": comment, "draft_token": None if draft is None else draft.token}
    return step(state, kind="approved", at=now, status=status, actor=actor, data=said, **changes)


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


def _another_draft(item: Item, draft: Run | None, token: int) -> ItemNotClaimable:
    if draft is None:
        why = "it has no draft"
    else:
        why = f"its draft is that of run {draft.token}, by {draft.agent}; read it first"
    return ItemNotClaimable(
        f"{item.id} does not wait with the draft of run {token}: {why}",
        item=item.id,
        status=item.status,
        why=why,
        draft_token=None if draft is None else draft.token,
    )
