"""The verb `preview`: what `next` would give, read without a lock and without writing.

`next` records overdue steps before it chooses, and ends the claims of dead owners only if it finds nothing else. This
read applies both to the outdated rows in memory.
"""

from __future__ import annotations

from dibs.model import READY
from dibs.rules import limits
from dibs.rules.claiming import skips, wanted_types
from dibs.store.sql import projection, rows, views
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from dibs.model import Item
    from dibs.rules.claiming import Claimant
    from dibs.store.sql.transaction import Transaction

#: How many ready items one search looks at.
LOOKED_AT_MAX = 10_000


def preview(
    t: Transaction,
    *,
    session: str | None = None,
    agent: str | None = None,
    types: Sequence[str] = (),
    projects: Sequence[str] = (),
    labels: Sequence[str] = (),
    n: int = 1,
) -> tuple[Item, ...]:
    projected = projection.of_board(t)
    died = {claim.item: claim for claim in projected.ended_claims()}
    me = views.claimant(t, session, agent, None, died)
    full = limits.refusal(t.now, me.agent, me.load)
    if full is not None:
        raise full
    wanted = wanted_types(me.agent, types)
    if wanted == ():
        return ()
    room = limits.room(t.now, me.agent, me.load, n)
    filters = {"projects": [*projects], "types": [*(wanted or ())], "labels": [*labels]}
    freed = {
        after.item.id: after.item
        for before, after in projected.changes()
        if after.item.status == READY and _matches(after.item, filters)
    }
    now_free = [item for id, item in freed.items() if id not in died]
    found = [item for item in _ready(t, filters, projected.states, room, me) if item.id not in t.passed_over]
    chosen = _best(t, me, [*found, *now_free], room)
    return tuple(chosen or _best(t, me, list(freed.values()), room))


def _ready(t: Transaction, filters: dict[str, Any], outdated: Any, n: int, me: Claimant) -> Iterator[Item]:
    """The first `n` ready items of this claimant whose rows are not outdated."""
    asked = {name: json_text.dumps(values) for name, values in filters.items()}
    begin = {"priority": -views.BEGINNING[0], "seq": views.BEGINNING[1], "subject": None}
    statuses = json_text.dumps([READY])
    for row in t.each("list_items", statuses=statuses, **asked, **begin, limit=LOOKED_AT_MAX):
        item = rows.item(row)
        if item.id not in outdated and _is_free(t, me, item):
            yield item
            n -= 1
            if n <= 0:
                return


def _best(t: Transaction, me: Claimant, items: list[Item], n: int) -> list[Item]:
    free = [item for item in items if _is_free(t, me, item)]
    return sorted(free, key=lambda item: views.position(t, item))[:n]


def _is_free(t: Transaction, me: Claimant, item: Item) -> bool:
    if item.offered_to is not None:
        return False
    return not skips(me.replace(holds=t.holds(item.project)) if item.resources else me, item)


def _matches(item: Item, filters: dict[str, Any]) -> bool:
    return (
        (not filters["projects"] or item.project in filters["projects"])
        and (not filters["types"] or item.type in filters["types"])
        and set(filters["labels"]) <= set(item.labels)
    )
