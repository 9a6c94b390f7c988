"""The sweep on SQLite: it records overdue steps and deletes outdated rows."""

from __future__ import annotations

from dibs.model import FAILED, Item, Sweep
from dibs.rules import ending
from dibs.store.sql import requests
from dibs.store.sql.session_verbs import OWNER_DIED, close_session, end_claims, find_session
from dibs.store.sqlite.claim_path import record_overdue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.model import Owner
    from dibs.rules.decision import State, Step
    from dibs.store.sql.transaction import Transaction

#: How many outdated requests one sweep deletes.
TRIM_BATCH = 1000


def sweep(t: Transaction, *, dead: Sequence[tuple[str, Owner]] = (), limit: int) -> Sweep:
    moved = record_overdue(t, limit)
    expired, reaped = moved["expired_items"], list[Item]()
    for session, owner in dead:
        reaped += _reap(t, session, owner, limit - len(reaped))
    since = t.now - round(t.settings.request_kept_seconds * 1000)
    t.run("trim_requests", {"before": since, "kept": requests.OUTDATED_KEPT, "limit": TRIM_BATCH})
    t.run("trim_activity", {"kept": t.settings.activity_kept})
    t.run("close_dead_tickets", {"now": t.now, "limit": limit})
    t.run("trim_tickets", {"before": since})
    t.run("trim_soft_claims", {"now": t.now})
    return Sweep(
        expired=tuple(item.id for item in expired),
        owner_died=tuple(item.id for item in reaped),
        failed=tuple(item.id for item in [*expired, *reaped] if item.status == FAILED),
        due=tuple(item.id for item in moved["due_items"]),
        offers=tuple(item.id for item in moved["lapsed_offers"]),
        more=len(reaped) >= limit or any(len(found) >= limit for found in moved.values()),
    )


def _reap(t: Transaction, session: str, owner: Owner, limit: int) -> list[Item]:
    """End the claims of a session whose owner process is dead, unless the session has ended or has another owner by
    now. The session itself ends once it has no claims."""
    found = find_session(t, session)
    if found is None or found.ended_at is not None or found.owner != owner:
        return []
    ended = end_claims(t, found, _owner_died, limit)
    if not t.all("items_of_session", session=session, limit=1):
        close_session(t, found, OWNER_DIED)
    return ended


def _owner_died(t: Transaction, state: State) -> Step:
    return ending.owner_died(t.now, state, t.settings)
