"""The verb `view`: the board at one instant, as a dashboard shows it.

It reads what has not ended, and of the rest only the end of the feed, so its cost does not grow with the number of
ended items.
"""

from __future__ import annotations

from itertools import chain, islice

from dibs.model import (
    BLOCKED,
    ENDED,
    FAILED,
    IN_PROGRESS,
    PARKED,
    PENDING_APPROVAL,
    READY,
    SCHEDULED,
    STATUSES,
)
from dibs.model.dashboard import Brief, Held, PastRun, Remark, Seat, View, Vitals, Waiter
from dibs.rules import fencing, health
from dibs.rules.sessions import told
from dibs.store.sql import projection, rows, stats
from dibs.store.sql.rows import blocker
from dibs.system import collector
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.model import Blocker, Claim, Item, Session
    from dibs.store.sql.projection import Projection
    from dibs.store.sql.transaction import Transaction

    Queues = dict[str, list[Waiter]]

ITEMS_MAX = 2000
HOLDINGS_MAX = 2000
SEATS_MAX = 1000
#: What needs somebody leaves room for what is in progress.
APPROVALS_MAX = 500
FAILED_MAX = 200
DEAD_ENDS_MAX = 200
ENDED_MAX = 200
#: How many of the latest events are searched for items that ended.
EVENTS_SEARCHED = 5000
#: How many claims and sessions one reading of vitals has.
BEATS_MAX = 10_000
#: How long a session is new, for pages that read the board before it started and listen since.
NEW_SECONDS = 60
#: How many waiting sessions one view shows, over all queues.
WAITERS_MAX = 10_000
RUNS_COUNTED = 50
RUNS_SHOWN = 10
NOTE_LENGTH_MAX = 500
#: A note is searched among this many latest events of its item.
NOTE_EVENTS = 20
#: What a dashboard has to know to show the same marks as the board.
SETTINGS = (
    *("ttl_seconds", "heartbeat_seconds", "stale_seconds", "orphan_seconds", "warning_seconds", "expiring_seconds"),
    *("accept_seconds", "max_strikes"),
)


def view(t: Transaction, until: int) -> View:
    with collector.Paused():
        return _view(t, until)


def _view(t: Transaction, until: int) -> View:
    projected = projection.of_board(t)
    counts = stats.by_status(t, projected)
    live_claims, live_sessions, _ = stats.live_counts(t, projected)
    queues = live_queues(t, projected)
    items = _briefs(t, projected, queues, counts)
    unended = sum(item.status not in ENDED for item in items)
    holdings = tuple(_holdings(t, projected, queues))
    holdings_left_off = live_claims - len(holdings)
    seated = map(rows.session, t.all("seats", limit=SEATS_MAX))
    sessions = seats(t, projected, seated, None if holdings_left_off else holdings)
    return View(
        event=min(until, latest_event(t)),
        at=t.now,
        me=None,
        settings={name: getattr(t.settings, name) for name in SETTINGS},
        counts=counts,
        items=tuple(items),
        holdings=holdings,
        sessions=sessions,
        left_off=sum(count for status, count in counts.items() if status not in ENDED) - unended,
        holdings_left_off=holdings_left_off,
        sessions_left_off=live_sessions - len(sessions),
    )


def vitals(t: Transaction, until: int) -> Vitals:
    projected = projection.of_board(t)
    gone = {claim.item for claim in projected.ended_claims()}
    claims = t.all("beats", now=t.now, limit=BEATS_MAX)
    seen = [(id, seen_at) for id, seen_at in t.all("seen_sessions", limit=BEATS_MAX) if id not in projected.dead]
    new = t.all("new_seats", since=t.now - NEW_SECONDS * 1000, limit=SEATS_MAX)
    return Vitals(
        event=min(until, latest_event(t)),
        at=t.now,
        claims={item: (expires_at, count) for item, expires_at, count in claims if item not in gone},
        seen=dict(seen),
        queues={item: tuple(waiter.session for waiter in queue) for item, queue in live_queues(t, projected).items()},
        seats=seats(t, projected, map(rows.session, new)),
    )


def latest_event(t: Transaction) -> int:
    """The cursor of a reader that knows every recorded event: never one before pruned events."""
    return int(max(t.scalar("latest_event") or 0, t.scalar("meta", name="event_floor") or 0))


def brief(item: Item) -> Brief:
    fields = item.as_dict()
    return Brief(**{name: fields[name] for name in Brief._fields if name in fields})


_read_brief = rows.reader(Brief)


def brief_of_row(row: rows.Row) -> Brief:
    made = _read_brief(row)
    made.__dict__.update(Brief._defaults)
    return made


def live_queues(t: Transaction, projected: Projection) -> Queues:
    """The live tickets of each item, in order."""
    found: Queues = {}
    offers = {id: state.item.offered_to for id, state in projected.states.items()}
    for id, item, session, agent, since_at, expires_at, offered_to in t.all(
        "live_queues", now=t.now, limit=WAITERS_MAX
    ):
        if id not in projected.closed:
            offered = offers.get(item, offered_to) == session
            waiter = Waiter(session=session, agent=agent, since_at=since_at, expires_at=expires_at, offered=offered)
            found.setdefault(item, []).append(waiter)
    return found


def with_details(t: Transaction, projected: Projection, briefs: Iterable[Brief], queues: Queues) -> list[Brief]:
    """The briefs with their open dependencies, their waiters, and why they failed."""
    briefs = list(briefs)
    waiting = [one.id for one in briefs if one.depends_on and one.status not in ENDED]
    blockers: dict[str, list[Blocker]] = {}
    for item, needs, status in t.all("blockers_of_items", items=json_text.dumps(waiting)) if waiting else ():
        state = projected.states.get(needs)
        blockers.setdefault(item, []).append(blocker(needs, status if state is None else state.item.status))
    reasons = _reasons(t, projected, [one.id for one in briefs if one.status == FAILED])
    return [
        one.replace(
            open_blockers=tuple(blockers.get(one.id, ())),
            waiters=len(queues.get(one.id, ())),
            reason=reasons.get(one.id),
        )
        if one.id in blockers or one.id in queues or one.id in reasons
        else one
        for one in briefs
    ]


def _reasons(t: Transaction, projected: Projection, failed: list[str]) -> dict[str, str | None]:
    """Why the latest run of each of these items ended."""
    found = dict(t.all("end_reasons", items=json_text.dumps(failed), length=NOTE_LENGTH_MAX)) if failed else {}
    for id in found.keys() & projected.states.keys():
        run = projected.states[id].run
        found[id] = None if run is None or run.reason is None else run.reason[:NOTE_LENGTH_MAX]
    return found


def seats(
    t: Transaction, projected: Projection, sessions: Iterable[Session], holdings: Iterable[Held] | None = None
) -> tuple[Seat, ...]:
    """`holdings`: all live claims, if they are known."""
    live = [session for session in sessions if session.id not in projected.dead]
    ids = json_text.dumps([session.id for session in live])
    found: Iterable[Claim | Held]
    if holdings is None:
        stored = map(rows.claim, t.all("claims_of_sessions", sessions=ids))
        found = [claim for claim in stored if fencing.live(claim, t.now)]
    else:
        found = sorted(holdings, key=lambda claim: (claim.claimed_at, claim.item))
    claims: dict[str, list[Claim | Held]] = {}
    for claim in found:
        claims.setdefault(claim.session, []).append(claim)
    runs: dict[str, list[PastRun]] = {}
    for session, item, token, started_at, ended_at, outcome in t.all(
        "runs_of_sessions", sessions=ids, limit=RUNS_COUNTED
    ):
        state = projected.states.get(item)
        if state is not None and state.run is not None and state.run.token == token:
            ended_at, outcome = state.run.ended_at, state.run.outcome
        run = {"item": item, "outcome": outcome, "started_at": started_at, "ended_at": ended_at}
        runs.setdefault(session, []).append(PastRun.of(run))
    return tuple(_seat(t, session, claims.get(session.id, []), runs.get(session.id, [])) for session in live)


def _seat(t: Transaction, session: Session, claims: list[Claim | Held], runs: list[PastRun]) -> Seat:
    outcomes = [run.outcome for run in runs if run.outcome is not None]
    recent = runs[:RUNS_SHOWN]
    judged = [run.outcome for run in recent if run.outcome is not None]
    score, reasons = health.score(t.now, session, claims, judged, t.settings)
    return Seat(
        id=session.id,
        agent=session.agent,
        kind=session.kind,
        host=session.host,
        meta=told(session).meta,
        started_at=session.started_at,
        seen_at=session.seen_at,
        score=score,
        reasons=reasons,
        holding=tuple(claim.item for claim in claims),
        ended={outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        recent=tuple(recent),
    )


def _briefs(t: Transaction, projected: Projection, queues: Queues, counts: dict[str, int]) -> list[Brief]:
    """The items of a view, the most important first."""
    found: dict[str, Brief] = {}
    outdated = projected.states

    def take(briefs: Iterable[Brief], most: int) -> None:
        new = (one for one in briefs if one.id not in found)
        for one in islice(new, min(most, ITEMS_MAX - len(found))):
            found[one.id] = one

    def take_status(status: str, most: int = ITEMS_MAX) -> None:
        most = min(most, ITEMS_MAX - len(found))
        known = sum(one.status == status for one in found.values()) if most and counts[status] else 0
        if most and counts[status] > known:
            projected_ones = (brief(state.item) for state in outdated.values() if state.item.status == status)
            # Those that are known come first again.
            limit = known + most + len(outdated)
            take(chain(projected_ones, stored("briefs_of_status", status=status, limit=limit)), most)

    def stored(statement: str, **parameters: Any) -> Iterator[Brief]:
        return (brief_of_row(row) for row in t.all(statement, **parameters) if row[0] not in outdated)

    take_status(PENDING_APPROVAL, APPROVALS_MAX)
    take_status(FAILED, FAILED_MAX)
    if counts[BLOCKED]:
        take(stored("briefs_in_dead_ends", limit=DEAD_ENDS_MAX), DEAD_ENDS_MAX)
    take_status(IN_PROGRESS)
    take(stored("briefs_ended", searched=EVENTS_SEARCHED, limit=ENDED_MAX), ENDED_MAX)
    for status in (PENDING_APPROVAL, READY, SCHEDULED, BLOCKED, PARKED):
        take_status(status)
    return with_details(t, projected, found.values(), queues)


def _holdings(t: Transaction, projected: Projection, queues: Queues) -> Iterator[Held]:
    found = t.all("holdings", now=t.now, events=NOTE_EVENTS, note_length=NOTE_LENGTH_MAX, limit=HOLDINGS_MAX)
    for *row, kind, noted_at, note in found:
        claim = rows.claim(tuple(row))
        state = projected.states.get(claim.item)
        if state is None or state.claim is not None:
            yield Held.of(
                {
                    **claim.__dict__,
                    "kind": kind,
                    "health": fencing.health(claim, t.now, t.settings),
                    "note": None if note is None else Remark(at=noted_at, note=note),
                    "waiters": tuple(queues.get(claim.item, ())),
                }
            )


assert {*STATUSES} - ENDED == {PENDING_APPROVAL, BLOCKED, SCHEDULED, READY, IN_PROGRESS, PARKED}
