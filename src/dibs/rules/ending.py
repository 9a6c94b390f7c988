"""Ends of a claim: by its holder (release, done, fail), by expiry, by the owner's death, or by an admin.

Each end closes the run with an outcome, and its event names the former holder.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import ItemNotClaimed, NotClaimOwner
from dibs.model import CANCELLED, DONE, FAILED, IN_PROGRESS, PARKED, PENDING_APPROVAL, READY, REJECTED, Claim, Run
from dibs.rules import table
from dibs.rules.decision import BOARD, State, Step, step
from dibs.rules.refusals import holder
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The end reason of a session whose owner process died, and of one that ended with its parent.
OWNER_DIED = "its owner process died"
PARENT_ENDED = "its parent session ended"
#: Verbs after which another session could take the item up.
LETTING_GO = ("release", "expire", "owner_died", "force_release", "fail")
#: Keeps the backoff a finite number.
DOUBLINGS_MAX = 62


def release(now: int, state: State, claim: Claim, *, reason: str | None, park: bool = False) -> Step:
    """Return the item to the board, or park it."""
    status = PARKED if park else _resting(now, state)
    return _end("release", "released", status, now, state, claim, reason=reason)


def forget(now: int, state: State, claim: Claim) -> Step:
    """Release a claim that the session left out of its heartbeat."""
    reason = "the session's heartbeat did not list it"
    return _end("release", "forgotten", _resting(now, state), now, state, claim, reason=reason)


def hand(now: int, state: State, claim: Claim, *, to: str, reason: str | None) -> Step:
    """End the claim for session `to`, which claims the item in the same transaction: see `handing`."""
    return _end("hand", "handed", READY, now, state, claim, reason=reason, details={"to": to})


def done(
    now: int, state: State, claim: Claim, *, note: str | None, links: dict[str, Any], cost: dict[str, Any]
) -> Step:
    """End the item, or submit its result if that is reviewed. Unlike a draft, a result does not withdraw an approval:
    another run would do the work that was approved."""
    if state.item.review:
        given: dict[str, Any] = {"links": links, "cost": cost, "needs_approval": True}
        return _end("done", "submitted", PENDING_APPROVAL, now, state, claim, reason=note, **given)
    return _end("done", "done", DONE, now, state, claim, reason=note, links=links, cost=cost)


def fail(
    now: int,
    state: State,
    claim: Claim,
    *,
    reason: str | None,
    links: dict[str, Any],
    cost: dict[str, Any],
    settings: Settings,
    uniform: float,
    is_final: bool = False,
) -> Step:
    """Fail the item; while retries remain and the failure is not final, schedule it again after a backoff with jitter
    `uniform` (0 to 1)."""
    item, failures = state.item, state.item.failures + 1
    changes: dict[str, Any] = {"failures": failures}
    status = FAILED
    if failures <= item.retries and is_final:
        changes["details"] = {"final": True}
    elif failures <= item.retries:
        delay = delay_seconds(
            failures - 1,
            uniform,
            base_seconds=settings.retry_backoff_seconds,
            cap_seconds=settings.retry_backoff_seconds_max,
        )
        changes["not_before"] = now + round(delay * 1000)
        status = table.rest(item.replace(not_before=changes["not_before"]), now, blocked=bool(state.blockers))
    return _end("fail", "failed", status, now, state, claim, reason=reason, links=links, cost=cost, **changes)


def submit(
    now: int, state: State, claim: Claim, *, draft: str, note: str | None, links: dict[str, Any], cost: dict[str, Any]
) -> Step:
    """End the run with a draft, which waits for approval."""
    return _end(
        "submit",
        "submitted",
        PENDING_APPROVAL,
        now,
        state,
        claim,
        reason=note,
        draft=draft,
        links=links,
        cost=cost,
        needs_approval=True,
        approved=False,
    )


def reject(now: int, state: State, claim: Claim, *, reason: str) -> Step:
    """End the item as rejected, by its holder."""
    return _end("reject", "rejected", REJECTED, now, state, claim, reason=reason)


def expire(now: int, state: State, settings: Settings) -> Step:
    """End an expired claim with a strike; at the last strike the item fails."""
    return _strike("expire", "expired", now, state, settings)


def owner_died(now: int, state: State, settings: Settings, why: str = OWNER_DIED) -> Step:
    """End the claim of a dead owner process with a strike, as for expiry. `why` is the end reason of its session, which
    tells whether it was the owner of the session's parent that died."""
    return _strike("owner_died", "owner_died", now, state, settings, None if why == OWNER_DIED else why)


def force_release(now: int, state: State, *, actor: str, reason: str, token: int | None) -> Step:
    """An admin ends the claim. With a token, only the claim under that token."""
    claim = state.claim
    if claim is None:
        raise ItemNotClaimed(
            f"{state.item.id} is {state.item.status} and not claimed", item=state.item.id, status=state.item.status
        )
    if token is not None and token != claim.token:
        raise NotClaimOwner(
            f"{claim.item} is held by {claim.agent} under token {claim.token}, not {token}",
            item=claim.item,
            holder=holder(claim),
        )
    return _end("force_release", "force_released", _resting(now, state), now, state, claim, reason=reason, actor=actor)


def cancel(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    """Cancel the item, and end its claim if there is one."""
    table.require("cancel", state.item)
    if state.item.status == IN_PROGRESS and state.claim is not None:
        return _end("cancel", "cancelled", CANCELLED, now, state, state.claim, reason=reason, actor=actor)
    return step(state, kind="cancelled", at=now, status=CANCELLED, actor=actor, data={"reason": reason})


def restored(now: int, state: State, *, actor: str, token: int) -> Step:
    """After a restore from a backup: end the claim and raise the token above all tokens given since the backup."""
    if state.claim is None:
        no_offer: dict[str, Any] = {"offered_to": None, "offer_expires_at": None}
        return step(state, kind="restored", at=now, status=state.item.status, actor=actor, token=token, **no_offer)
    reason = "the board was restored from a backup"
    return _end(
        "force_release",
        "restored",
        _resting(now, state),
        now,
        state,
        state.claim,
        reason=reason,
        actor=actor,
        token=token,
    )


def delay_seconds(attempt: int, uniform: float, *, base_seconds: float, cap_seconds: float) -> float:
    """The backoff with full jitter before this attempt, counted from 0. `uniform` is a random number from 0 to 1."""
    return uniform * ceiling_seconds(attempt, base_seconds=base_seconds, cap_seconds=cap_seconds)


def ceiling_seconds(attempt: int, *, base_seconds: float, cap_seconds: float) -> float:
    """The longest backoff: doubled with each attempt up to the cap."""
    return min(cap_seconds, base_seconds * 2.0 ** min(attempt, DOUBLINGS_MAX))


def _strike(verb: str, outcome: str, now: int, state: State, settings: Settings, why: str | None = None) -> Step:
    claim = state.claim
    assert claim is not None, "only a claimed item gets a strike"
    strikes = state.item.strikes + 1
    out = strikes >= settings.max_strikes
    count = f"{strikes} of {settings.max_strikes} strikes" if out else None
    reason = "; ".join(filter(None, (count, why))) or None
    status = FAILED if out else _resting(now, state)
    return _end(verb, outcome, status, now, state, claim, reason=reason, actor=BOARD, strikes=strikes)


def _resting(now: int, state: State) -> str:
    return table.rest(state.item, now, blocked=bool(state.blockers))


def _end(
    verb: str,
    outcome: str,
    status: str,
    now: int,
    state: State,
    claim: Claim,
    *,
    reason: str | None,
    actor: str | None = None,
    draft: str | None = None,
    links: dict[str, Any] | None = None,
    cost: dict[str, Any] | None = None,
    details: dict[str, Any] | None = None,
    **changes: Any,
) -> Step:
    table.require(verb, state.item)
    over = table.over(state.item) if verb in LETTING_GO and status != FAILED else None
    if over is not None:
        status, details = CANCELLED, {"over": over}
    begun = _begun_run(state, claim)
    run = begun.replace(
        ended_at=now,
        outcome=outcome,
        reason=reason,
        draft=draft,
        links=json_text.merged(begun.links, links),
        cost=json_text.merged(begun.cost, cost),
    )
    data: dict[str, Any] = {"reason": reason, **(details or {})}
    if draft is not None:
        data["draft"] = draft
    if links:
        data["links"] = links
    if cost:
        data["cost"] = cost
    return step(
        state,
        kind=outcome,
        at=now,
        status=status,
        actor=actor or claim.agent,
        session=claim.session,
        agent=claim.agent,
        run=run,
        data=data,
        **changes,
    )


def _begun_run(state: State, claim: Claim) -> Run:
    """The run of the claim, with what its holder has annotated."""
    if state.run is not None and state.run.token == claim.token:
        return state.run
    return Run(
        item=claim.item,
        token=claim.token,
        session=claim.session,
        agent=claim.agent,
        started_at=claim.claimed_at,
    )
