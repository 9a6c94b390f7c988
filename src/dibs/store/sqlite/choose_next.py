"""What `next` chooses: the best items over the lanes that an agent may be handed.

A lane is what is ready of one (project, type, action, approved); its index holds it in order. Lanes are merged lazily,
so what stands behind the chosen items is never read, and what has to be passed over (a resource in use) costs one look.
"""

from __future__ import annotations

from dibs.rules import limits
from dibs.rules.claiming import wanted_types
from dibs.rules.resources import conflict
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from dibs.model import Item
    from dibs.rules.claiming import Asker
    from dibs.rules.resources import Hold
    from dibs.store.sql.transaction import Transaction

    Lane = tuple[str, str, str, int]

#: How many items with a resource in use one look passes over before it gives up.
PASSED_OVER_MAX = 10_000


def best(t: Transaction, asker: Asker, types: Sequence[str], projects: Sequence[str], n: int) -> list[Item]:
    """The first `n` items that this asker can be given: priority descending, then oldest."""
    chosen: list[Item] = []
    in_use = InUse(t, asker)
    for looked, (_, seq) in enumerate(_ranked(t, lanes(t, asker, types, projects))):
        if len(chosen) >= n or looked >= PASSED_OVER_MAX:
            break
        item = _item(t, seq)
        if not in_use.by_others(item) and item.id not in t.passed_over:
            chosen.append(item)
    return chosen


def ahead_of(t: Transaction, asker: Asker, item: Item, most: int) -> int:
    """How many items, counted up to `most`, this asker would be given before this one."""
    row = t.one("seq_of_item", id=item.id)
    assert row is not None
    place, count = (-item.priority, row[0]), 0
    in_use = InUse(t, asker)
    for rank in _ranked(t, lanes(t, asker, (), ())):
        if rank >= place or count >= most:
            break
        count += not in_use.by_others(_item(t, rank[1]))
    return count


class InUse:
    """What others hold, asked for once a project and only where an item touches anything."""

    def __init__(self, t: Transaction, asker: Asker) -> None:
        self._t = t
        self._session = asker.session.id
        self._holds: dict[str, tuple[Hold, ...]] = {}

    def by_others(self, item: Item) -> bool:
        if not item.resources:
            return False
        if item.project not in self._holds:
            self._holds[item.project] = self._t.holds(item.project)
        return conflict(item, self._holds[item.project], self._session) is not None


def lanes(t: Transaction, asker: Asker, types: Sequence[str], projects: Sequence[str]) -> list[Lane]:
    """The lanes with something ready that were asked for and that the agent may be handed."""
    wanted = wanted_types(asker.agent, types)
    return [
        (project, type, action, approved)
        for project, type, action, approved in _ready_lanes(t)
        if (not projects or project in projects)
        and (wanted is None or type in wanted)
        and limits.may_take(asker.agent, action, bool(approved))
    ]


def _ranked(t: Transaction, wanted: Iterable[Lane]) -> Iterator[tuple[Any, ...]]:
    """(priority turned round, age) of everything in these lanes, best first."""
    from heapq import merge

    return merge(*(t.each("lane", **_parameters(lane)) for lane in wanted))


def _item(t: Transaction, seq: int) -> Item:
    row = t.one("item_by_seq", seq=seq)
    assert row is not None, "what is in the index is in the table"
    return rows.item(row)


def _ready_lanes(t: Transaction) -> Iterator[Lane]:
    """Every lane with something in it, found by skipping from one to the next."""
    for project in _each_next(t, "project", "", {}):
        for type in _each_next(t, "type", "", {"project": project}):
            for action in _each_next(t, "action", "", {"project": project, "type": type}):
                place = {"project": project, "type": type, "action": action}
                for approved in _each_next(t, "approved", -1, place):
                    yield project, type, action, approved


def _each_next(t: Transaction, column: str, before: str | int, place: dict[str, Any]) -> Iterator[Any]:
    """The values of one column of the lanes' index, in order, below a place in the columns before it."""
    row = t.one(f"next_{column}", **place, **{column: before})
    while row is not None:
        yield row[0]
        row = t.one(f"next_{column}", **place, **{column: row[0]})


def _parameters(lane: Lane) -> dict[str, str | int]:
    project, type, action, approved = lane
    return {"project": project, "type": type, "action": action, "approved": approved}
