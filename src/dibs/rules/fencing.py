"""Fencing and renewal of claims.

`fence` alone decides whether (item, token, session) is the live claim. Its refusals change nothing and name the reason:
the claim expired, was taken over (and by which session), has ended, belongs to another session, or never existed.
"""

from __future__ import annotations

from dibs.config import Settings
from dibs.errors import ClaimExpired, DibsError, Forbidden, ItemNotClaimed, NotClaimOwner
from dibs.model import Claim, Lost, Renewal, Run, Session
from dibs.rules.decision import State, Step, step
from dibs.rules.refusals import holder, token_never_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model.dashboard import Held

#: Outcomes of a run that its holder did not choose and may not have noticed.
LAPSED = frozenset({"expired", "owner_died"})
#: The least number of heartbeats within a TTL.
BEATS_IN_TTL = 3
#: A session whose `next` finds nothing is noted as seen this often: each time is a write.
IDLE_SEEN_SECONDS = 3600.0


def live(claim: Claim, now: int) -> bool:
    return now < claim.expires_at


def fence(now: int, state: State, *, session: str, token: int | None, asked: Run | None) -> Claim:
    """Return the live claim that this session holds under this token, or raise the refusal.

    Without a token, any live claim of the session will do. `asked` is the run under the token, or without a token the
    session's latest run of the item; None if there is no such run.
    """
    item = state.item
    current = state.claim if state.claim is not None and live(state.claim, now) else None
    if token is not None and token > item.token:
        raise token_never_given(item, token)
    if current is not None and current.session == session and token in (None, current.token):
        return current
    if asked is not None and asked.session == session:
        raise ended(state, asked, current)
    if current is not None:
        raise NotClaimOwner(
            f"{item.id} is claimed by {current.agent} (session {current.session}), not by session {session}",
            item=item.id,
            holder=holder(current),
        )
    raise ItemNotClaimed(
        f"session {session} holds no claim of {item.id}; the item is {item.status}",
        item=item.id,
        status=item.status,
        how="never_claimed",
    )


def was_done(asked: Run | None, session: str) -> bool:
    """Whether this session itself ended that run as done, so that repeating it changes nothing."""
    if asked is None or asked.session != session:
        return False
    return asked.outcome == "done" or (asked.outcome == "submitted" and asked.draft is None)


def ended(state: State, run: Run, current: Claim | None) -> DibsError:
    """The refusal for the former holder of a run that has ended."""
    how = run.outcome or "expired"
    if how in LAPSED and not _restored_since(state, run):
        return taken_over(state, run.token, how)
    if current is not None:
        return NotClaimOwner(
            f"this claim of {run.item} ended ({how}); {current.agent} (session {current.session}) holds it now",
            item=run.item,
            how=how,
            holder=holder(current),
        )
    return ItemNotClaimed(
        f"this claim of {run.item} ended ({how}); the item is {state.item.status}",
        item=run.item,
        status=state.item.status,
        how=how,
    )


def _restored_since(state: State, run: Run) -> bool:
    """Whether the token rose without a later run, as a restore from a backup does."""
    return state.run is not None and state.run.token == run.token < state.item.token


def taken_over(state: State, token: int, how: str = "expired") -> ClaimExpired:
    """The claim under this token lapsed; name the session that claimed the item since, if any."""
    item, latest = state.item, state.run
    ended = "has expired" if how == "expired" else "ended when its owner died"
    if item.token == token or latest is None:
        return ClaimExpired(
            f"the claim of {item.id} under token {token} {ended}; no other session took it over",
            item=item.id,
            token=token,
            status=item.status,
            how=how,
            taken_over_by=None,
        )
    return ClaimExpired(
        f"the claim of {item.id} under token {token} {ended}; {latest.agent} (session {latest.session}) took it over",
        item=item.id,
        token=token,
        status=item.status,
        how=how,
        taken_over_by=holder(latest),
    )


def lost(item: str, token: int | None, error: DibsError) -> Lost:
    """A refusal, as an entry in the answer of a verb about several claims."""
    taken_by = error.facts.get("taken_over_by") or error.facts.get("holder")
    how = "must_submit" if isinstance(error, Forbidden) else error.facts.get("how", "not_owner")
    return Lost(item=item, token=token, code=error.code, how=how, holder=taken_by)


def renew(claim: Claim, now: int, ttl_seconds: float | None = None, *, counted: bool = True) -> Claim:
    """The claim, extended by a TTL but not past its deadline. `counted`: as a heartbeat."""
    ttl_seconds = claim.ttl_seconds if ttl_seconds is None else ttl_seconds
    return claim.replace(
        renewed_at=now,
        expires_at=min(now + round(ttl_seconds * 1000), claim.deadline_at),
        ttl_seconds=ttl_seconds,
        heartbeat_count=claim.heartbeat_count + (1 if counted else 0),
    )


def counted_interval(at_most_every_seconds: float | None, settings: Settings) -> float | None:
    """The interval that a caller asked for, capped at a third of `stale_seconds`: a session that sends heartbeats must
    not be shown as stale. `is_due` also caps the interval at a third of each claim's TTL."""
    return at_most_every_seconds and min(at_most_every_seconds, settings.stale_seconds / BEATS_IN_TTL)


def is_due(claim: Claim, now: int, at_most_every_seconds: float | None, ttl_seconds: float | None = None) -> bool:
    """Whether a heartbeat renews the claim: the last renewal is long enough ago, or the TTL changes. A renewal in the
    future, after the clock was set back, counts as long ago."""
    if at_most_every_seconds is None or ttl_seconds not in (None, claim.ttl_seconds):
        return True
    every = min(round(at_most_every_seconds * 1000), round(claim.ttl_seconds * 1000 / BEATS_IN_TTL))
    return not now - every < claim.renewed_at <= now


def is_session_due(session: Session, now: int, at_most_every_seconds: float | None) -> bool:
    """`is_due` for a session without claims: whether it was last seen long enough ago."""
    every = round((at_most_every_seconds or 0) * 1000)
    return not now - every < session.seen_at <= now


def is_idle_due(session: Session, now: int) -> bool:
    """Whether a session that found nothing to claim is noted as seen: rarely, but long before it ends as silent."""
    return is_session_due(session, now, IDLE_SEEN_SECONDS)


def renewal(claim: Claim, now: int, settings: Settings, *, renewed: bool = True) -> Renewal:
    left = remaining_seconds(claim, now)
    warning = "warning" if left <= settings.warning_seconds else None
    if left <= settings.expiring_seconds:
        warning = "expiring"
    return Renewal(
        item=claim.item,
        token=claim.token,
        expires_at=claim.expires_at,
        remaining_seconds=left,
        heartbeat_count=claim.heartbeat_count,
        warning=warning,
        heartbeat_seconds=interval_seconds(claim, settings),
        renewed=renewed,
    )


def is_known(given_event: int, known_event: int | None) -> bool:
    """Whether a caller that has seen `known_event` can know of a claim given with `given_event`."""
    return known_event is None or given_event <= known_event


def interval_seconds(claim: Claim, settings: Settings) -> float:
    """The suggested time between heartbeats: as configured, and at least three times within the TTL."""
    return min(settings.heartbeat_seconds, claim.ttl_seconds / BEATS_IN_TTL)


def progress(now: int, state: State, claim: Claim, *, note: str, meta: dict[str, Any]) -> Step:
    """Record a note for watchers and for the next holder, and renew the claim."""
    return step(
        state,
        kind="progress",
        at=now,
        status=state.item.status,
        actor=claim.agent,
        session=claim.session,
        agent=claim.agent,
        claim=renew(claim, now),
        data={"note": note, "meta": meta},
    )


def health(claim: Claim | Held, now: int, settings: Settings) -> str:
    """A mark for display. It never ends a claim."""
    left = remaining_seconds(claim, now)
    silent = (now - claim.renewed_at) / 1000
    if left <= settings.expiring_seconds:
        return "expiring"
    if left <= settings.warning_seconds:
        return "warning"
    if silent > settings.orphan_seconds:
        return "orphaned"
    return "stale" if silent > settings.stale_seconds else "healthy"


def remaining_seconds(claim: Claim | Held, now: int) -> float:
    return max(0, claim.expires_at - now) / 1000
