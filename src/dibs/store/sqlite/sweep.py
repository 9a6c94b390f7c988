"""The sweep on SQLite: it records overdue steps and deletes outdated rows."""

from __future__ import annotations

from dibs.model import FAILED, Item, Sweep
from dibs.rules import ending
from dibs.store.sql import figures, requests
from dibs.store.sql.session_verbs import (
    close_session,
    close_tickets,
    end_claims,
    end_reason,
    find_session,
    live_descendants,
)
from dibs.store.sqlite.claim_path import record_overdue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dibs.model import Owner
    from dibs.rules.decision import State, Step
    from dibs.store.sql.transaction import Transaction

#: How many outdated requests one sweep deletes.
TRIM_BATCH = 1000


def sweep(t: Transaction, *, dead: Sequence[tuple[str, Owner]], limit: int) -> Sweep:
    moved = record_overdue(t, limit)
    expired, reaped = moved["expired_items"], reap(t, dead, limit)
    since = t.now - round(t.settings.request_kept_seconds * 1000)
    t.run("trim_requests", {"before": since, "kept": requests.OUTDATED_KEPT, "limit": TRIM_BATCH})
    t.run("trim_activity", {"kept": t.settings.activity_kept})
    t.run("close_dead_tickets", {"now": t.now, "limit": limit})
    t.run("trim_tickets", {"before": since})
    t.run("trim_soft_claims", {"now": t.now})
    figures.catch_up(t, figures.BATCH)
    return Sweep(
        expired=tuple(item.id for item in expired),
        owner_died=tuple(item.id for item in reaped),
        failed=tuple(item.id for item in [*expired, *reaped] if item.status == FAILED),
        due=tuple(item.id for item in moved["due_items"]),
        offers=tuple(item.id for item in moved["lapsed_offers"]),
        more=len(reaped) >= limit or any(len(found) >= limit for found in moved.values()),
    )


def reap(t: Transaction, dead: Sequence[tuple[str, Owner]], limit: int) -> list[Item]:
    """See `Transaction.reap`; the items whose claims ended."""
    reaped, owners = list[Item](), {owner for _, owner in dead}
    for session, owner in dead:
        reaped += _reap(t, session, owner, owners, limit - len(reaped))
    return reaped


def _reap(t: Transaction, session: str, owner: Owner, dead: Collection[Owner], limit: int) -> list[Item]:
    """End the claims of a session whose owner process is dead, and those of its descendants, unless it has ended or has
    another owner by now. Without claims left, all these sessions end."""
    found = find_session(t, session)
    if found is None or found.ended_at is not None or found.owner != owner:
        return []
    ended: list[Item] = []
    reasons = {one: end_reason(one, dead) for one in (found, *live_descendants(t, [session]))}
    for one, why in reasons.items():

        def owner_died(t: Transaction, state: State, why: str = why) -> Step:
            return ending.owner_died(t.now, state, t.settings, why)

        ended += end_claims(t, one, owner_died, limit - len(ended))
    if not any(t.all("items_of_session", session=one.id, limit=1) for one in reasons):
        for one, why in reasons.items():
            close_tickets(t, (one,))
            close_session(t, one, why)
    return ended
