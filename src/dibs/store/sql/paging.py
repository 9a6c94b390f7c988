"""The verb `page`: items by filter, words and order, a page at a time, with counts that obey the filter.

It looks at every item that has not ended. Of those that have, only the failed ones and those at the end of the feed are
looked at, so that its cost does not grow with their number.
"""

from __future__ import annotations

from collections import Counter

from dibs.model import ENDED, STATUSES
from dibs.model.dashboard import Paged
from dibs.store.sql import overview, projection, rows, stats
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from dibs.store.contract import FindDead
    from dibs.store.sql.projection import Projection
    from dibs.store.sql.transaction import Transaction

    Position = tuple[int, int]

#: How many of the latest events are searched for items that ended, and how many failed items are looked at.
EVENTS_SEARCHED = 20_000
FAILED_MAX = 10_000


class Candidate:
    """An item that a page may show."""

    __slots__ = ("id", "labels", "of_agent", "priority", "project", "seq", "status", "title", "type", "updated_at")

    def __init__(self, row: tuple[Any, ...], projected: Projection) -> None:
        self.id, self.status, self.type, self.priority, self.seq, self.updated_at, *others = row
        self.title, self.labels, self.project, self.of_agent = others
        state = projected.states.get(self.id)
        if state is not None:
            self.status = state.item.status


#: Positions in each order; a page continues after the position of its cursor.
SORTS: dict[str, Callable[[Candidate], Position]] = {
    "next": lambda one: (-one.priority, one.seq),
    "updated": lambda one: (-one.updated_at, -one.seq),
    "created": lambda one: (-one.seq, 0),
}


def page(
    t: Transaction,
    find_dead: FindDead,
    *,
    status: Sequence[str] = (),
    project: Sequence[str] = (),
    type: Sequence[str] = (),
    label: Sequence[str] = (),
    agent: str | None = None,
    q: str | None = None,
    sort: str = "next",
    cursor: str | None = None,
    limit: int,
) -> Paged:
    projected = projection.of_board(t, find_dead)
    candidates, left_off = matching(t, projected, project=project, label=label, agent=agent, q=q)
    groups = Counter((one.status, one.type) for one in candidates)
    by_status = Counter(dict.fromkeys(STATUSES, 0))
    by_type: Counter[str] = Counter()
    for (its_status, its_type), count in groups.items():
        if not type or its_type in type:
            by_status[its_status] += count
        if not status or its_status in status:
            by_type[its_type] += count
    position = SORTS[sort]
    chosen = [one for one in candidates if (not status or one.status in status) and (not type or one.type in type)]
    total = len(chosen)
    begin = None if cursor is None else _position(cursor)
    rest = sorted((one for one in chosen if begin is None or position(one) > begin), key=position)
    shown = rest[:limit]
    return Paged(
        items=_briefs(t, projected, [one.id for one in shown]),
        next=_cursor(position(shown[-1])) if len(rest) > limit else None,
        total=total,
        counts={"status": dict(by_status), "type": dict(sorted(by_type.items()))},
        left_off=left_off,
    )


def matching(
    t: Transaction,
    projected: Projection,
    *,
    project: Sequence[str],
    label: Sequence[str],
    agent: str | None,
    q: str | None,
) -> tuple[list[Candidate], int]:
    """The items that match a filter, but for their status and type; and how many ended items were not looked at."""
    found = t.all("page_candidates", agent=agent, searched=EVENTS_SEARCHED, failed=FAILED_MAX)
    candidates = [Candidate(row, projected) for row in found]
    words, labels = (q or "").casefold().split(), set(label)
    chosen = [
        one
        for one in candidates
        if one.of_agent
        and (not project or one.project in project)
        and (not labels or labels <= {*rows.names(one.labels)})
        and (not words or _has(one, words))
    ]
    ended = sum(count for status, count in stats.by_status(t, projected).items() if status in ENDED)
    return chosen, max(0, ended - sum(one.status in ENDED for one in candidates))


def _has(one: Candidate, words: list[str]) -> bool:
    text = f"{one.id} {one.title} {one.labels}".casefold()
    return all(word in text for word in words)


def _briefs(t: Transaction, projected: Projection, ids: list[str]) -> tuple[Any, ...]:
    found = {row[0]: rows.brief(row) for row in t.all("briefs_by_id", items=json_text.dumps(ids))} if ids else {}
    for id in found.keys() & projected.states.keys():
        found[id] = overview.brief(projected.states[id].item)
    queues = overview.live_queues(t, projected)
    return tuple(overview.with_blockers(t, projected, (found[id] for id in ids), queues))


def _cursor(position: Position) -> str:
    return f"{position[0]}.{position[1]}"


def _position(cursor: str) -> Position:
    first, _, second = cursor.partition(".")
    return int(first), int(second)
