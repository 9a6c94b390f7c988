"""Brings the item of a fact to the state that the policy wants, one verb at a time.

After each verb the item is read and decided on again, so that a crash between two verbs, a worker that claims the item
meanwhile and the same fact by another way all lead to the same end. Every change names the revision that was read. The
verbs of a delivery carry request ids made of its id: the board keeps them in the transaction of their effect.
"""

from __future__ import annotations

from functools import partial

from dibs import check
from dibs.errors import Invalid, ItemAlreadyClaimed, ItemChanged, ItemNotClaimable, ItemNotFound, StoreUnavailable
from dibs.github import ends
from dibs.github.decide import Decision, Step, approval, decide, frees, remembered
from dibs.github.payload import digest
from dibs.github.wiped import restored
from dibs.model import BLOCKED, PENDING_APPROVAL
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.board import Board
    from dibs.github.payload import Fact
    from dibs.github.policy import Policy
    from dibs.model import Item

ACTOR = AGENT = ends.AGENT
#: More than the verbs of one fact and a few of other callers in between.
ROUNDS_MAX = 200
#: Refusals because another caller was faster: the item is read again.
OVERTAKEN = (ItemChanged, ItemNotClaimable, ItemAlreadyClaimed, ItemNotFound)


class Outcome(Value):
    """What was done about a fact, by verb; without any, `why`."""

    subject: str
    item: str | None
    did: tuple[str, ...] = ()
    why: str = ""


def converge(board: Board, fact: Fact, policy: Policy, *, delivery: str | None = None) -> Outcome:
    did: list[str] = []
    is_noted = False
    for _ in range(ROUNDS_MAX):
        item, decision = look(board, fact, policy, partial(restored, board))
        if item is None and decision.rule:
            later = ends.newest(board, fact)
            if later != fact:
                fact = later
                continue
            if delivery is not None and decision.is_end and not is_noted:
                ends.note(board, fact)
                is_noted = True
                continue
        if not decision.steps:
            found = None if item is None else item.id
            return Outcome(subject=fact.subject, item=found, did=tuple(did), why="" if did else decision.why)
        step = decision.steps[0]
        try:
            if _call(board, step, _request_id(delivery, step)):
                did.append(step.verb)
        except OVERTAKEN:
            continue
        except Invalid as error:
            if not _is_overtaken(error):
                raise
        if step.verb == "add":
            fact = ends.newest(board, fact)
    raise StoreUnavailable(f"the item of {fact.subject} keeps changing; try again", retry_after_seconds=1)


def look(
    board: Board, fact: Fact, policy: Policy, known_as: Callable[[Item], Item] = lambda item: item
) -> tuple[Item | None, Decision]:
    """The item of the fact, and what is left to do about it. `known_as` answers the item as it is to be decided on."""
    item = next(iter(board.list(subject=fact.subject, limit=1)), None)
    item = item if item is None else known_as(item)
    if item is not None and item.status == PENDING_APPROVAL and fact.approved_by:
        # Who withdrew the approval since, by an edit, is not overruled by the same label once more, or by an older one.
        given = {event.data.get("comment") for event in board.log(item.id) if event.kind == "approved"}
        is_late = remembered(item).get("version", "") > fact.version
        if approval(fact, policy) in given or (given and is_late):
            fact = fact.replace(approved_by=None)
    dependents: tuple[Item, ...] = ()
    if item is not None and frees(fact, policy, item):
        blocked = board.list(statuses=[BLOCKED], limit=check.LIST_MAX)
        dependents = tuple(one for one in blocked if item.id in one.depends_on)
    return item, decide(fact, policy, item, dependents)


def _call(board: Board, step: Step, request_id: str | None) -> bool:
    """Call the verb; False if another caller was faster."""
    given, item = dict(step.arguments), step.item
    if item is None:
        return not board.add(given.pop("title"), **given, actor=ACTOR, request_id=request_id).existed
    if step.verb == "cancel":
        chosen = [{"id": item, "revision": given["revision"]}]
        reason = {"reason": given["reason"]}
        # Unlike `cancel`, `bulk` names the revision: a claim in between is not ended.
        return bool(board.bulk("cancel", args=reason, items=chosen, actor=ACTOR, request_id=request_id).done)
    if step.verb == "finish":
        return finish(board, item, given, request_id)
    verb = board.edit if step.verb == "edit" else board.approve
    verb(item, **given, actor=ACTOR, request_id=request_id)
    return True


def finish(board: Board, item: str, given: dict[str, Any], request_id: str | None) -> bool:
    """End an unclaimed item as done: only the holder of a claim can, or who approves it."""
    if given["status"] == PENDING_APPROVAL:
        comment, revision = given["reason"], given["revision"]
        board.approve(item, done=True, comment=comment, revision=revision, actor=ACTOR, request_id=request_id)
        return True
    session = board.start_session(AGENT, kind="autonomous").id
    try:
        grant = board.claim(item, session=session)
        if grant.item.revision != given["revision"] + 1:
            return False  # it changed before the claim; the end of the session releases it
        links = {"github": given["url"]} if given["url"] else None
        board.done(item, session=session, token=grant.claim.token, note=given["reason"], links=links)
        return True
    finally:
        board.end_session(session, reason=given["reason"])


def _request_id(delivery: str | None, step: Step) -> str | None:
    if delivery is None:
        return None
    return f"github:{delivery}:{digest(step.verb, step.item, sorted(step.arguments.items()))}"


def _is_overtaken(error: Invalid) -> bool:
    """A duplicate of the delivery was faster, the subject was given to another item, or a claim froze the content."""
    return error.facts.get("field") in ("request_id", "subject") or "holder" in error.facts
