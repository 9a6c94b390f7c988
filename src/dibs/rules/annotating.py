"""What is learned of a run once it has ended: its pull request, the checks of its work, what it cost.

An annotation adds to the record of the run and tells so by an event. It moves no item and ends no claim: while one
session holds the item, an earlier run of it can be annotated. A run whose draft was approved cannot: what the approver
read is what the next holder is shown under the approver's name.
"""

from __future__ import annotations

from dibs import jsontext
from dibs.errors import Invalid, ItemNotClaimable, ItemNotClaimed, NotClaimOwner
from dibs.model import CANCELLED, DONE, REJECTED
from dibs.rules.decision import State, Step, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Run, Session

#: What a run can be given, each a JSON object whose names are kept apart.
ANNOTATED = ("links", "checks", "cost")
#: How much of each a run can have, as when it ends.
BYTES_MAX = 1_000_000
#: Nobody takes up an item from here, so its approval is shown to no holder. One that failed can be tried again.
OVER = frozenset({DONE, REJECTED, CANCELLED})


def annotate(
    now: int,
    state: State,
    run: Run | None,
    said: dict[str, dict[str, Any]],
    *,
    token: int | None,
    approved: int | None,
    actor: str,
    agent: str | None = None,
) -> Step | None:
    """The step that adds what is `said` to the run; None if the run has all of it.

    `run` is the run under the token, or without one the latest. With `agent`, it has to be a run of that agent.
    `approved` is the token of the run whose draft the approval in force is about.
    """
    run = _annotatable(state, run, token, agent)
    _need_unapproved(state, run, approved)
    new = _new(run, said)
    return _step(now, state, run, new, actor=actor) if new else None


def told(
    now: int,
    state: State,
    run: Run,
    said: dict[str, dict[str, Any]],
    *,
    at: int,
    approved: int | None,
    actor: str,
) -> Step:
    """The step that adds what an `actor` said elsewhere, at the instant `at` of the clock there. There is one also if
    the run has all of it: by actor and instant it is known again."""
    _need_unapproved(state, run, approved)
    return _step(now, state, run, _new(run, said), actor=actor, told_at=at)


def _new(run: Run, said: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {name: _news(getattr(run, name), said.get(name, {})) for name in ANNOTATED}
    return {name: values for name, values in found.items() if values}


def _step(now: int, state: State, run: Run, new: dict[str, dict[str, Any]], *, actor: str, **more: int) -> Step:
    return step(
        state,
        kind="annotated",
        at=now,
        status=state.item.status,
        actor=actor,
        claim=state.claim,
        run=run.replace(**{name: _added(run, name, values) for name, values in new.items()}),
        session=run.session,
        agent=run.agent,
        data={"run": run.token, **new, **more},
    )


def _need_unapproved(state: State, run: Run, approved: int | None) -> None:
    if run.token == approved and state.item.status not in OVER:
        raise ItemNotClaimable(
            f"the draft of run {run.token} of {state.item.id} was approved with what the run had then; the run can be"
            " annotated once the item is done, rejected or cancelled",
            item=state.item.id,
            status=state.item.status,
            why=f"the draft of run {run.token} was approved",
        )


def need_key(run: Run, session: Session | None, key: str) -> None:
    """The run is of a session that this key registered."""
    if session is None or session.key != key:
        raise NotClaimOwner(
            f"run {run.token} of {run.item} was of session {run.session}, which another key registered",
            item=run.item,
            holder={"session": run.session, "agent": run.agent, "token": run.token},
        )


def _annotatable(state: State, run: Run | None, token: int | None, agent: str | None) -> Run:
    item = state.item
    if token is not None and token > item.token:
        raise Invalid(
            f"token {token} of {item.id} was never given; the latest is {item.token}",
            field="token",
            item=item.id,
            latest_token=item.token,
        )
    if run is None:
        which = "nobody has claimed it" if token is None else f"no run under token {token} is known"
        raise ItemNotClaimed(
            f"{item.id} has no run to annotate: {which}", item=item.id, status=item.status, how="never_claimed"
        )
    if agent is not None and agent != run.agent:
        raise NotClaimOwner(
            f"run {run.token} of {item.id} was {run.agent}'s (session {run.session}), and {agent} cannot annotate it",
            item=item.id,
            holder={"session": run.session, "agent": run.agent, "token": run.token},
        )
    if run.outcome is None:
        raise ItemNotClaimable(
            f"run {run.token} of {item.id} is going on; it can be annotated once it has ended",
            item=item.id,
            status=item.status,
            why=f"run {run.token} has not ended",
        )
    return run


def _news(known: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in known or _text(known[name]) != _text(value)}


def _text(value: Any) -> str:
    """JSON to compare: 1, true and 1.0 are three values, and the order of names means nothing."""
    return jsontext.dumps(_ordered(value))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(one) for one in value] if isinstance(value, list | tuple) else value


def _added(run: Run, name: str, values: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {**getattr(run, name), **values}
    size = len(jsontext.dumps(merged).encode())
    if size > BYTES_MAX:
        raise Invalid(
            f"{name} of run {run.token} would have {size} bytes; {BYTES_MAX} is the most",
            field=name,
            bytes_max=BYTES_MAX,
        )
    return merged
