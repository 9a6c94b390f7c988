"""How `next` chooses: the best items of all lanes that the agent may take.

A lane is the ready items of one (project, type, action, approved), in the order of an index. One statement finds all
lanes with the first item of each. Lanes are merged lazily, so items behind the chosen ones are never read.
"""

from __future__ import annotations

from dibs.rules import limits
from dibs.rules.claiming import skips, wanted_types
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from dibs.model import Item, Run
    from dibs.rules.claiming import Claimant
    from dibs.store.sql.transaction import Transaction

    #: The place of an item in the order of `next`: (-priority, seq).
    Rank = tuple[int, int]

#: How many items with a conflicting resource one search skips.
PASSED_OVER_MAX = 10_000


class Lane:
    """The ready items of one (project, type, action, approved), and the rank of the first one."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.project, self.type, self.action, self.approved = row[:4]
        self.first: Rank = row[4:]

    def ranks(self, t: Transaction) -> Iterator[Rank]:
        """The rank of each item. Those after the first are read only if they are asked for."""
        yield self.first
        others = t.each("lane", project=self.project, type=self.type, action=self.action, approved=self.approved)
        next(others)
        yield from others


def best(
    t: Transaction, claimant: Claimant, types: Sequence[str], projects: Sequence[str], n: int
) -> list[tuple[Item, Run | None]]:
    """The first `n` items for this claimant, each with its latest run: priority descending, then oldest."""
    chosen: list[tuple[Item, Run | None]] = []
    if n < 1:
        return chosen
    search = Search(t, claimant)
    for looked, (_, seq) in enumerate(_ranked(t, lanes(t, claimant, types, projects))):
        if looked >= PASSED_OVER_MAX:
            break
        item, run = _ready_item(t, seq)
        if not search.skips(item) and item.id not in t.passed_over:
            chosen.append((item, run))
            if len(chosen) == n:
                break
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
        count += not search.skips(_ready_item(t, rank[1])[0])
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
        lane
        for lane in map(Lane, t.all("lanes"))
        if (not projects or lane.project in projects)
        and (wanted is None or lane.type in wanted)
        and limits.may_take(claimant.agent, lane.action, bool(lane.approved))
    ]


def _ranked(t: Transaction, wanted: Iterable[Lane]) -> Iterator[Rank]:
    """The rank of every item in these lanes, best first."""
    from heapq import merge

    return merge(*(lane.ranks(t) for lane in wanted))


def _ready_item(t: Transaction, seq: int) -> tuple[Item, Run | None]:
    row = t.one("ready_item", seq=seq)
    assert row is not None
    return rows.item_with_run(row)
