"""The approval of what an outsider opened, by a label that a member put there."""

from __future__ import annotations

from dibs import check
from dibs.github import payload
from dibs.github.decide import INSTANT_LENGTH
from dibs.model import PENDING_APPROVAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.github.api import Api
    from dibs.github.payload import Fact
    from dibs.github.policy import Policy


def approved(board: Board, api: Api, fact: Fact, policy: Policy) -> Fact:
    """Whether a member put the label there that approves, and nothing has changed since. The events of an issue do not
    tell of edits, so any later change leaves the decision to a person."""
    label = policy.approve_label
    if label is None or not any(payload.is_same_label(one, label) for one in fact.labels):
        return fact
    if not _awaits_approval(board, fact):
        return fact
    path = f"/repos/{fact.repository}/issues/{fact.number}/events"
    events = [one for page in api.pages(path, conditional=False) for one in page]
    put = [
        one
        for one in events
        if one.get("event") == "labeled"
        and payload.is_same_label(payload.as_object(one.get("label")).get("name"), label)
    ]
    actor = put[-1].get("actor") if put else None
    if not isinstance(actor, dict) or actor.get("type") != "User" or actor.get("login") == fact.author:
        return fact
    is_last = (payload.instant(put[-1].get("created_at")) or "") >= fact.version[:INSTANT_LENGTH]
    return fact.replace(approved_by=payload.line(actor.get("login"), check.NAME_LENGTH_MAX)) if is_last else fact


def _awaits_approval(board: Board, fact: Fact) -> bool:
    """An item that is not there yet will."""
    found = board.list(subject=fact.subject, limit=1)
    return fact.is_outsiders and (not found or found[0].status == PENDING_APPROVAL)
