"""The verb `page`: items by filter, words and order, a page at a time, with counts that obey the filter.

It looks at every item that has not ended. Of those that have, only the failed ones and those at the end of the feed are
looked at, so that its cost does not grow with their number. The database filters, counts and sorts: in Python, each of
a hundred thousand items would hold up the other threads of a server.
"""

from __future__ import annotations

from collections import Counter

from dibs.model import ENDED, STATUSES
from dibs.model.dashboard import Paged
from dibs.store.sql import overview, projection, rows, stats
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from dibs.store.sql.projection import Projection
    from dibs.store.sql.transaction import Transaction

    Position = tuple[int, int]

#: How many of the latest events are searched for items that ended, and how many failed items are looked at.
EVENTS_SEARCHED = 20_000
FAILED_MAX = 10_000


class Found:
    """What matches a filter: `items` (id, revision) from a position of an order on, and the position of the last one;
    `total` of all of them."""

    def __init__(self, found: Iterable[tuple[Any, ...]], status: Sequence[str], type: Sequence[str]) -> None:
        self.items: list[tuple[str, int]] = []
        self.positions: list[Position] = []
        self.by_status = Counter(dict.fromkeys(STATUSES, 0))
        self.by_type: Counter[str] = Counter()
        self.total = self.ended = 0
        for name, its_type, first, second, revision in found:
            if its_type is None:
                self.items.append((name, revision))
                self.positions.append((first, second))
                continue
            has_status, has_type = not status or name in status, not type or its_type in type
            self.ended += first if name in ENDED else 0
            if has_type:
                self.by_status[name] += second
            if has_status and second:
                self.by_type[its_type] += second
            if has_type and has_status:
                self.total += second


def page(
    t: Transaction,
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
    projected = projection.of_board(t)
    filter = {"status": status, "project": project, "type": type, "label": label, "agent": agent, "q": q}
    found = matching(t, projected, filter, sort=sort, cursor=cursor, limit=limit + 1)
    ended = sum(count for status, count in stats.by_status(t, projected).items() if status in ENDED)
    return Paged(
        items=_briefs(t, projected, [id for id, _ in found.items[:limit]]),
        next=_cursor(sort, found.positions[limit - 1]) if len(found.items) > limit else None,
        total=found.total,
        counts={"status": dict(found.by_status), "type": dict(sorted(found.by_type.items()))},
        left_off=max(0, ended - found.ended),
    )


def matching(
    t: Transaction,
    projected: Projection,
    filter: Mapping[str, Any],
    *,
    sort: str = "next",
    cursor: str | None = None,
    limit: int,
) -> Found:
    """Up to `limit` items that match a filter, after the position of a cursor."""
    words = {word.casefold() for word in (filter["q"] or "").split()}
    ascii_words = {word for word in words if word.isascii()}
    first, second = (None, None) if cursor is None else _position(cursor)
    found = t.all(
        "page",
        searched=EVENTS_SEARCHED,
        failed=FAILED_MAX,
        outdated=json_text.dumps({id: state.item.status for id, state in projected.states.items()}),
        projects=json_text.dumps([*filter["project"]]),
        labels=json_text.dumps([*filter["label"]]),
        agent=filter["agent"],
        words=json_text.dumps(sorted(ascii_words)),
        among=None if words == ascii_words else json_text.dumps(_with_words(t, words - ascii_words)),
        statuses=json_text.dumps([*filter["status"]]),
        types=json_text.dumps([*filter["type"]]),
        sort=sort,
        major=first,
        minor=second,
        limit=limit,
    )
    return Found(found, filter["status"], filter["type"])


def _with_words(t: Transaction, words: set[str]) -> list[str]:
    """The items that have these words, which a database compares in any case only in some locales."""
    found = t.all("page_texts", searched=EVENTS_SEARCHED, failed=FAILED_MAX)
    texts = ((id, " ".join((id, title, *rows.names(labels))).casefold()) for id, title, labels in found)
    return [id for id, text in texts if all(word in text for word in words)]


def _briefs(t: Transaction, projected: Projection, ids: list[str]) -> tuple[Any, ...]:
    stored = t.all("briefs_by_id", items=json_text.dumps(ids)) if ids else ()
    found = {row[0]: overview.brief_of_row(row) for row in stored}
    for id in found.keys() & projected.states.keys():
        found[id] = overview.brief(projected.states[id].item)
    queues = overview.live_queues(t, projected)
    return tuple(overview.with_details(t, projected, (found[id] for id in ids), queues))


def _cursor(sort: str, position: Position) -> str:
    """As `dibs.board.filters` checks it."""
    return f"{sort}.{position[0]}.{position[1]}"


def _position(cursor: str) -> Position:
    _, first, second = cursor.split(".")
    return int(first), int(second)
