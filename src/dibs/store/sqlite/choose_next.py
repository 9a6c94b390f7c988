"""How `next` chooses: the best items that the agent may take, as a claim at this instant would find them.

A lane is the ready items of one (project, type, action, approved), in the order of an index. One statement finds all
lanes with the first item of each. Lanes are merged lazily, so items behind the chosen ones are never read.

When more items are overdue than one `next` records, those that are left are merged with the lanes, as if they were
ready. What is overdue about such an item is recorded when its turn comes.
"""

from __future__ import annotations

from dibs.model import READY
from dibs.rules import limits
from dibs.rules.claiming import skips, wanted_types
from dibs.rules.decision import State
from dibs.rules.overdue import due_steps
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from dibs.model import Item
    from dibs.rules.claiming import Claimant
    from dibs.rules.decision import Step
    from dibs.store.sql.transaction import Transaction

    #: -priority and seq, by which `next` orders; project, type, action and approved; and the id of an overdue item.
    Rank = tuple[Any, ...]

#: How many items with a conflicting resource one search skips.
PASSED_OVER_MAX = 10_000
#: How many overdue items that turn out not to be claimable one search records.
NOT_CLAIMABLE_MAX = 2_000
OVERDUE_RANKS = ("expired_ranks", "due_ranks", "lapsed_ranks")


def best(
    t: Transaction,
    claimant: Claimant,
    types: Sequence[str],
    projects: Sequence[str],
    labels: Sequence[str],
    n: int,
    *,
    is_more_overdue: bool = False,
) -> tuple[list[Step], list[State]]:
    """The first `n` items for this claimant, priority descending, then oldest: the overdue steps to write first, and
    the items as they are after these."""
    due: list[Step] = []
    states: list[State] = []
    search, not_claimable = Search(t, claimant), 0
    wants = _wants(claimant, types, projects)
    ranked = _ranked(t, wants, labels, is_more_overdue=is_more_overdue) if n else ()
    for looked, rank in enumerate(ranked):
        if looked >= PASSED_OVER_MAX or not_claimable >= NOT_CLAIMABLE_MAX:
            break
        # Nothing is written before the end, because the statements that give the ranks are still being read.
        steps, state = _as_ready(t, rank)
        if state.item.id in t.passed_over or not set(labels) <= set(state.item.labels):
            continue
        if state.item.status != READY or state.item.offered_to is not None:
            due += steps
            not_claimable += 1
        elif not search.skips(state.item):
            due += steps
            states.append(state)
            if len(states) == n:
                break
    return due, states


def ahead_of(t: Transaction, claimant: Claimant, item: Item, most: int) -> int:
    """How many items, up to `most`, `next` would give to this claimant before this one."""
    row = t.one("seq_of_item", id=item.id)
    assert row is not None
    position, count = (-item.priority, row[0]), 0
    search = Search(t, claimant)
    for rank in _ranked(t, _wants(claimant, (), ())):
        if rank[:2] >= position or count >= most:
            break
        count += not search.skips(_as_ready(t, rank)[1].item)
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


def _wants(claimant: Claimant, types: Sequence[str], projects: Sequence[str]) -> Callable[[Rank], bool]:
    """Tells whether the caller asked for items of a lane and the agent may take them."""
    wanted = wanted_types(claimant.agent, types)

    def wants(rank: Rank) -> bool:
        _, _, project, type, action, approved, _ = rank
        return (
            (not projects or project in projects)
            and (wanted is None or type in wanted)
            and limits.may_take(claimant.agent, action, bool(approved))
        )

    return wants


def _ranked(
    t: Transaction, wants: Callable[[Rank], bool], labels: Sequence[str] = (), *, is_more_overdue: bool = False
) -> Iterator[Rank]:
    """The rank of every wanted item, best first. In lanes, only items that have all of the labels."""
    ranks: list[Iterator[Rank]] = [_lane(t, first, labels) for first in t.all("lanes") if wants(first)]
    if is_more_overdue:
        ranks += [filter(wants, t.each(statement, now=t.now)) for statement in OVERDUE_RANKS]
    if len(ranks) == 1:
        return ranks[0]
    from heapq import merge

    return merge(*ranks)


def _lane(t: Transaction, first: Rank, labels: Sequence[str]) -> Iterator[Rank]:
    """The ranks of a lane. Those after the first are read only if they are asked for."""
    lane = first[2:]
    project, type, action, approved, _ = lane
    parameters = {"project": project, "type": type, "action": action, "approved": approved}
    if labels:
        from dibs.text import json_text

        others = t.each("lane_with_labels", **parameters, labels=json_text.dumps(list(labels)))
    else:
        yield first
        others = t.each("lane", **parameters)
        next(others)
    for rank in others:
        yield (*rank, *lane)


def _as_ready(t: Transaction, rank: Rank) -> tuple[list[Step], State]:
    """What is overdue about an item, and its state after that."""
    _, seq, *_, overdue = rank
    if overdue is not None:
        return due_steps(t.now, t.state(overdue), t.settings)
    row = t.one("ready_item", seq=seq)
    assert row is not None
    item, run = rows.item_with_run(row)
    return [], State(item=item, run=run)
