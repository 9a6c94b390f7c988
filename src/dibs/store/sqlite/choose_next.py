"""How `next` chooses: the best items of all lanes that the agent may take.

A lane is the ready items of one (project, type, action, approved), in the order of an index. Lanes are merged lazily,
so items behind the chosen ones are never read.
"""

from __future__ import annotations

from dibs.rules import limits
from dibs.rules.claiming import skips, wanted_types
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from dibs.model import Item
    from dibs.rules.claiming import Claimant
    from dibs.store.sql.transaction import Transaction

    Lane = tuple[str, str, str, int]

#: How many items with a conflicting resource one search skips.
PASSED_OVER_MAX = 10_000


def best(
    t: Transaction, claimant: Claimant, types: Sequence[str], projects: Sequence[str], labels: Sequence[str], n: int
) -> list[Item]:
    """The first `n` items for this claimant: priority descending, then oldest."""
    chosen: list[Item] = []
    search = Search(t, claimant)
    for looked, (_, seq) in enumerate(_ranked(t, lanes(t, claimant, types, projects), labels)):
        if len(chosen) >= n or looked >= PASSED_OVER_MAX:
            break
        item = _item(t, seq)
        if not search.skips(item) and item.id not in t.passed_over:
            chosen.append(item)
    return chosen


def ahead_of(t: Transaction, claimant: Claimant, item: Item, most: int) -> int:
    """How many items, up to `most`, `next` would give to this claimant before this one."""
    row = t.one("seq_of_item", id=item.id)
    assert row is not None
    position, count = (-item.priority, row[0]), 0
    search = Search(t, claimant)
    for rank in _ranked(t, lanes(t, claimant, (), ())):
        if rank >= position or count >= most:
            break
        count += not search.skips(_item(t, rank[1]))
    return count


class Search:
    """Which ready items to skip for this claimant. The resources that other sessions hold are loaded once per project
    and only for items with resources."""

    def __init__(self, t: Transaction, claimant: Claimant) -> None:
        self._t = t
        self._claimant = claimant
        self._with_holds: dict[str, Claimant] = {}

    def skips(self, item: Item) -> bool:
        if not item.resources:
            return skips(self._claimant, item)
        if item.project not in self._with_holds:
            self._with_holds[item.project] = self._claimant.replace(holds=self._t.holds(item.project))
        return skips(self._with_holds[item.project], item)


def lanes(t: Transaction, claimant: Claimant, types: Sequence[str], projects: Sequence[str]) -> list[Lane]:
    """The lanes with ready items that the caller asked for and that the agent may take."""
    wanted = wanted_types(claimant.agent, types)
    return [
        (project, type, action, approved)
        for project, type, action, approved in _ready_lanes(t)
        if (not projects or project in projects)
        and (wanted is None or type in wanted)
        and limits.may_take(claimant.agent, action, bool(approved))
    ]


def _ranked(t: Transaction, wanted: Iterable[Lane], labels: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    """(-priority, seq) of every item in these lanes that has all of the labels, best first."""
    from heapq import merge

    if not labels:
        return merge(*(t.each("lane", **_parameters(lane)) for lane in wanted))
    from dibs.text import json_text

    asked = json_text.dumps(list(labels))
    return merge(*(t.each("lane_with_labels", **_parameters(lane), labels=asked) for lane in wanted))


def _item(t: Transaction, seq: int) -> Item:
    row = t.one("item_by_seq", seq=seq)
    assert row is not None
    return rows.item(row)


def _ready_lanes(t: Transaction) -> Iterator[Lane]:
    """Every lane with items, by a skip scan of the index."""
    for project in _each_next(t, "project", "", {}):
        for type in _each_next(t, "type", "", {"project": project}):
            for action in _each_next(t, "action", "", {"project": project, "type": type}):
                prefix = {"project": project, "type": type, "action": action}
                for approved in _each_next(t, "approved", -1, prefix):
                    yield project, type, action, approved


def _each_next(t: Transaction, column: str, before: str | int, prefix: dict[str, Any]) -> Iterator[Any]:
    """The values of one column of the lanes' index, in order, for given values of the columns before it."""
    row = t.one(f"next_{column}", **prefix, **{column: before})
    while row is not None:
        yield row[0]
        row = t.one(f"next_{column}", **prefix, **{column: row[0]})


def _parameters(lane: Lane) -> dict[str, str | int]:
    project, type, action, approved = lane
    return {"project": project, "type": type, "action": action, "approved": approved}
