"""Letting go of an item: by its holder (release, done, fail), by time, by a death, or by an admin.

Each end closes the run with its outcome and names the holder in the event, read before the claim is gone.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import ItemNotClaimed, NotClaimOwner
from dibs.model import CANCELLED, DONE, FAILED, IN_PROGRESS, PARKED, PENDING_APPROVAL, REJECTED, Claim, Run
from dibs.rules import table
from dibs.rules.backoff import delay_seconds
from dibs.rules.decision import BOARD, State, Step, step
from dibs.rules.resting import rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def release(now: int, state: State, claim: Claim, *, reason: str | None, park: bool = False) -> Step:
    """Back to where it rests, or set aside."""
    status = PARKED if park else _resting(now, state)
    return _end("release", "released", status, now, state, claim, reason=reason)


def forget(now: int, state: State, claim: Claim) -> Step:
    """The session says what it holds, and this is not among it."""
    reason = "not among what the session says it holds"
    return _end("release", "forgotten", _resting(now, state), now, state, claim, reason=reason)


def done(
    now: int, state: State, claim: Claim, *, note: str | None, links: dict[str, Any], cost: dict[str, Any]
) -> Step:
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
    """Failed; while retries remain, scheduled again after a backoff of which `uniform` (0 to 1) draws the jitter,
    unless the failure `is_final`, which its event then tells."""
    item, failures = state.item, state.item.failures + 1
    changes: dict[str, Any] = {"failures": failures}
    status = FAILED
    if failures <= item.retries and is_final:
        changes["told"] = {"final": True}
    elif failures <= item.retries:
        delay = delay_seconds(
            failures - 1,
            uniform,
            base_seconds=settings.retry_backoff_seconds,
            cap_seconds=settings.retry_backoff_seconds_max,
        )
        changes["not_before"] = now + round(delay * 1000)
        status = rest(item.replace(not_before=changes["not_before"]), now, blocked=bool(state.blockers))
    return _end("fail", "failed", status, now, state, claim, reason=reason, links=links, cost=cost, **changes)


def submit(
    now: int, state: State, claim: Claim, *, draft: str, note: str | None, links: dict[str, Any], cost: dict[str, Any]
) -> Step:
    """Drafted, and up to a person now."""
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
    """The holder finds that this is not to be done."""
    return _end("reject", "rejected", REJECTED, now, state, claim, reason=reason)


def expire(now: int, state: State, settings: Settings) -> Step:
    """The claim's time is up: a strike, and the item is ready again or, at the last strike, failed."""
    return _strike("expire", "expired", now, state, settings)


def owner_died(now: int, state: State, settings: Settings) -> Step:
    """The process that owned the session is proven dead: a strike, as for expiry."""
    return _strike("owner_died", "owner_died", now, state, settings)


def force_release(now: int, state: State, *, actor: str, reason: str, token: int | None) -> Step:
    """An admin takes the item back. With a token, only from that claim: a newer one is not what was meant."""
    claim = state.claim
    if claim is None:
        raise ItemNotClaimed(
            f"{state.item.id} is {state.item.status} and nobody holds it", item=state.item.id, status=state.item.status
        )
    if token is not None and token != claim.token:
        raise NotClaimOwner(
            f"{claim.item} is held under token {claim.token} by {claim.agent}, not under {token}",
            item=claim.item,
            holder={"session": claim.session, "agent": claim.agent, "token": claim.token},
        )
    return _end("force_release", "force_released", _resting(now, state), now, state, claim, reason=reason, actor=actor)


def cancel(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    """The item is not to be done. A holder loses it: its token is spent."""
    table.require("cancel", state.item)
    if state.item.status == IN_PROGRESS and state.claim is not None:
        return _end("cancel", "cancelled", CANCELLED, now, state, state.claim, reason=reason, actor=actor)
    return step(state, kind="cancelled", at=now, status=CANCELLED, actor=actor, data={"reason": reason})


def restored(now: int, state: State, *, actor: str, token: int) -> Step:
    """The board came back from a backup: whatever was claimed since is void, and tokens move on past all of it."""
    if state.claim is None:
        nobody: dict[str, Any] = {"offered_to": None, "offer_expires_at": None}
        return step(state, kind="restored", at=now, status=state.item.status, actor=actor, token=token, **nobody)
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


def _strike(verb: str, outcome: str, now: int, state: State, settings: Settings) -> Step:
    claim = state.claim
    assert claim is not None, "only a claimed item can be struck"
    strikes = state.item.strikes + 1
    out = strikes >= settings.max_strikes
    reason = f"{strikes} of {settings.max_strikes} strikes" if out else None
    status = FAILED if out else _resting(now, state)
    return _end(verb, outcome, status, now, state, claim, reason=reason, actor=BOARD, strikes=strikes)


def _resting(now: int, state: State) -> str:
    return rest(state.item, now, blocked=bool(state.blockers))


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
    told: dict[str, Any] | None = None,
    **changes: Any,
) -> Step:
    table.require(verb, state.item)
    run = Run(
        item=claim.item,
        token=claim.token,
        session=claim.session,
        agent=claim.agent,
        started_at=claim.claimed_at,
        ended_at=now,
        outcome=outcome,
        reason=reason,
        draft=draft,
        links=links or {},
        cost=cost or {},
    )
    data: dict[str, Any] = {"reason": reason, **(told or {})}
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
