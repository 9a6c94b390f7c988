"""Decisions about runs: approval of drafts, and annotations.

An agent cannot approve its own draft. An annotation adds links, checks and costs to a run; it changes neither the item
nor a claim, so an earlier run can be annotated while another session holds the item. A run that has not ended is
annotated by its holder alone. A run whose draft was approved cannot be annotated: the next holder is shown what the
approver read.
"""

from __future__ import annotations

from dibs.errors import Forbidden, Invalid, ItemNotClaimable, ItemNotClaimed, NotClaimOwner
from dibs.model import CANCELLED, DONE, IN_PROGRESS, REJECTED
from dibs.rules import table
from dibs.rules.decision import State, Step, step
from dibs.rules.refusals import holder, token_never_given
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Item, Run, Session

#: The fields of a run that can be annotated, each a JSON object.
ANNOTATED = ("links", "checks", "cost")
#: The most bytes of each.
BYTES_MAX = 1_000_000
#: The same while the run has not ended, since its end adds to them.
BYTES_MAX_BEFORE_END = 900_000
#: An item in these statuses is claimed again only after it was reopened, which withdraws its approval: no holder is
#: shown the approval. A failed item can be retried.
FINAL = frozenset({DONE, REJECTED, CANCELLED})


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
    """Approve the item for agents that are allowed its action, or with `done` end it with its draft. `draft` is the
    latest run that was submitted; with a token, it has to be the run under that token. A result is not carried out once
    more: approving it ends the item."""
    table.require("approve", state.item)
    if token is not None and (draft is None or token != draft.token):
        raise _another_draft(state.item, draft, token)
    if draft is not None and actor == draft.agent:
        raise Forbidden(f"{actor} drafted {state.item.id} and cannot approve it", item=state.item.id, agent=actor)
    changes: dict[str, Any] = {"needs_approval": False, "approved": True}
    done = done or _is_result(state.item, draft)
    status = DONE if done else table.rest(state.item.replace(needs_approval=False), now, blocked=bool(state.blockers))
    data = {"comment": comment, "draft_token": None if draft is None else draft.token}
    return step(state, kind="approved", at=now, status=status, actor=actor, data=data, **changes)


def send_back(now: int, state: State, *, actor: str, comment: str) -> Step:
    """Ask for another draft, or another result: the next holder gets the comment. Of an approved item only a result can
    wait, and the approval of the work stays."""
    table.require("send_back", state.item)
    status = table.rest(state.item.replace(needs_approval=False), now, blocked=bool(state.blockers))
    changes: dict[str, Any] = {"needs_approval": False, "approved": state.item.approved}
    return step(state, kind="sent_back", at=now, status=status, actor=actor, data={"comment": comment}, **changes)


def reject(now: int, state: State, *, actor: str, reason: str) -> Step:
    """Reject an item that waits for approval; only its holder can reject a claimed one."""
    table.require("reject", state.item)
    if state.item.status == IN_PROGRESS:
        raise ItemNotClaimable(
            f"{state.item.id} is in progress; only its holder can reject it now",
            item=state.item.id,
            status=IN_PROGRESS,
            why="its holder decides",
        )
    return step(state, kind="rejected", at=now, status=REJECTED, actor=actor, data={"reason": reason})


def annotate(
    now: int,
    state: State,
    run: Run | None,
    given: dict[str, dict[str, Any]],
    *,
    token: int | None,
    approved: int | None,
    actor: str,
    agent: str | None = None,
    session: str | None = None,
) -> Step | None:
    """Add the `given` entries to the run; None if the run has all of them.

    `run` is the run under the token, or without a token the latest. With `agent`, it has to be a run of that agent; a
    run that has not ended has to be of this `session`. `approved` is the token of the run whose draft the current
    approval is about.
    """
    run = _require_annotatable(state, run, token, agent, session)
    _require_unapproved(state, run, approved)
    new = _new_entries(run, given)
    return _annotated(now, state, run, new, actor=actor) if new else None


def import_annotation(
    now: int,
    state: State,
    run: Run,
    given: dict[str, dict[str, Any]],
    *,
    at: int,
    approved: int | None,
    actor: str,
) -> Step:
    """Add an annotation that `actor` made in another copy of the board, at the instant `at` of the clock there. The
    step is recorded even if the run has all of it: actor and instant identify an annotation that was imported."""
    _require_unapproved(state, run, approved)
    return _annotated(now, state, run, _new_entries(run, given), actor=actor, told_at=at)


def require_key(run: Run, session: Session | None, key: str) -> None:
    """Refuse a run of a session that another key registered."""
    if session is None or session.key != key:
        raise NotClaimOwner(
            f"run {run.token} of {run.item} is by session {run.session}, which another key registered",
            item=run.item,
            holder=holder(run),
        )


def _new_entries(run: Run, given: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {name: _differing(getattr(run, name), given.get(name, {})) for name in ANNOTATED}
    return {name: values for name, values in found.items() if values}


def _annotated(now: int, state: State, run: Run, new: dict[str, dict[str, Any]], *, actor: str, **more: int) -> Step:
    return step(
        state,
        kind="annotated",
        at=now,
        status=state.item.status,
        actor=actor,
        claim=state.claim,
        run=run.replace(**{name: _merged(run, name, values) for name, values in new.items()}),
        session=run.session,
        agent=run.agent,
        data={"run": run.token, **new, **more},
    )


def _require_unapproved(state: State, run: Run, approved: int | None) -> None:
    if run.token == approved and state.item.status not in FINAL:
        raise ItemNotClaimable(
            f"the draft of run {run.token} of {state.item.id} was approved as it is; annotate the run when the item is"
            " done, rejected or cancelled",
            item=state.item.id,
            status=state.item.status,
            why=f"the draft of run {run.token} was approved",
        )


def _is_result(item: Item, run: Run | None) -> bool:
    """Whether the latest run was submitted by `done`: a result, in contrast to a draft, has no text of its own."""
    return item.review and run is not None and run.token == item.token and not run.draft


def _another_draft(item: Item, draft: Run | None, token: int) -> ItemNotClaimable:
    if draft is None:
        why = "it has no draft"
    else:
        why = f"its draft is from run {draft.token}, by {draft.agent}; read it first"
    return ItemNotClaimable(
        f"{item.id} does not wait for approval of the draft of run {token}: {why}",
        item=item.id,
        status=item.status,
        why=why,
        draft_token=None if draft is None else draft.token,
    )


def _require_annotatable(
    state: State, run: Run | None, token: int | None, agent: str | None, session: str | None
) -> Run:
    item = state.item
    if token is not None and token > item.token:
        raise token_never_given(item, token)
    if run is None:
        which = "it was never claimed" if token is None else f"there is no run under token {token}"
        raise ItemNotClaimed(
            f"{item.id} has no run to annotate: {which}", item=item.id, status=item.status, how="never_claimed"
        )
    if agent is not None and agent != run.agent:
        raise NotClaimOwner(
            f"run {run.token} of {item.id} is by {run.agent} (session {run.session}); {agent} cannot annotate it",
            item=item.id,
            holder=holder(run),
        )
    if run.outcome is None and run.session != session:
        raise ItemNotClaimable(
            f"run {run.token} of {item.id} has not ended; until then only its session {run.session} can annotate it",
            item=item.id,
            status=item.status,
            why=f"run {run.token} has not ended",
        )
    return run


def _differing(known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in given.items() if name not in known or _as_json(known[name]) != _as_json(value)
    }


def _as_json(value: Any) -> str:
    """JSON to compare: 1, true and 1.0 are three values, and the order of names means nothing."""
    return json_text.dumps(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list | tuple) else value


def _merged(run: Run, name: str, values: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {**getattr(run, name), **values}
    size, limit = len(json_text.dumps(merged).encode()), BYTES_MAX_BEFORE_END if run.outcome is None else BYTES_MAX
    if size > limit:
        raise Invalid(
            f"{name} of run {run.token} would have {size} bytes; the limit is {limit}", field=name, bytes_max=limit
        )
    return merged
