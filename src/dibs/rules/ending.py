"""Letting go of an item: by its holder (release, done, fail), by time, by a death, or by an admin.

Each end closes the run with its outcome and names the holder in the event, read before the claim is gone.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import ItemNotClaimed, NotClaimOwner
from dibs.model import CANCELLED, DONE, FAILED, IN_PROGRESS, READY, Claim, Run
from dibs.rules import table
from dibs.rules.decision import State, Step, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Who acts when the board itself does.
BOARD = "dibs"


def release(now: int, state: State, claim: Claim, *, reason: str | None) -> Step:
    return _end("release", "released", READY, now, state, claim, reason=reason)


def forget(now: int, state: State, claim: Claim) -> Step:
    """The session says what it holds, and this is not among it."""
    return _end("release", "forgotten", READY, now, state, claim, reason="not among what the session says it holds")


def done(
    now: int, state: State, claim: Claim, *, note: str | None, links: dict[str, Any], cost: dict[str, Any]
) -> Step:
    return _end("done", "done", DONE, now, state, claim, reason=note, links=links, cost=cost)


def fail(
    now: int, state: State, claim: Claim, *, reason: str | None, links: dict[str, Any], cost: dict[str, Any]
) -> Step:
    return _end("fail", "failed", FAILED, now, state, claim, reason=reason, links=links, cost=cost)


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
    return _end("force_release", "force_released", READY, now, state, claim, reason=reason, actor=actor)


def cancel(now: int, state: State, *, actor: str, reason: str | None) -> Step:
    """The item is not to be done. A holder loses it: its token is spent."""
    table.require("cancel", state.item)
    if state.item.status == IN_PROGRESS and state.claim is not None:
        return _end("cancel", "cancelled", CANCELLED, now, state, state.claim, reason=reason, actor=actor)
    return step(state, kind="cancelled", at=now, status=CANCELLED, actor=actor, data={"reason": reason})


def _strike(verb: str, outcome: str, now: int, state: State, settings: Settings) -> Step:
    claim = state.claim
    assert claim is not None, "only a claimed item can be struck"
    strikes = state.item.strikes + 1
    out = strikes >= settings.max_strikes
    reason = f"{strikes} of {settings.max_strikes} strikes" if out else None
    return _end(verb, outcome, FAILED if out else READY, now, state, claim, reason=reason, actor=BOARD, strikes=strikes)


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
    links: dict[str, Any] | None = None,
    cost: dict[str, Any] | None = None,
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
        links=links or {},
        cost=cost or {},
    )
    data: dict[str, Any] = {"reason": reason, **changes}
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
