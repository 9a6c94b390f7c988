"""Figures that are kept, so that `stats` and `view` need not read every item and every run that ever ended.

The history itself is the list of changes: events and runs are only ever added. A sweep adds a batch of them to the
table `figures` and notes how far it came; a read adds what came since. So no claim writes more than it did, and no row
is updated by every claim. A run that has not ended when it is reached waits in `uncounted_runs`. What deletes events or
runs takes them out of the figures first.
"""

from __future__ import annotations

from collections import Counter

from dibs.model import ENDED
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.store.sql.transaction import Transaction

    #: By agent and outcome of runs: how many, and their milliseconds.
    Runs = dict[tuple[str, str], tuple[int, int]]

#: How many events one sweep counts.
BATCH = 2000
#: With more events than this since the figures were counted, counting the items themselves is faster.
RECOUNT_EVENTS = 100_000
#: The agent of a figure that is about all agents.
ALL = ""


def catch_up(t: Transaction, limit: int) -> bool:
    """Count the next events, up to `limit`, and the runs that began with them; whether there may be more."""
    row = t.one("try_lock_figures")
    if row is None or not row[0]:
        return False  # another process is at it
    before = upto(t, "event")
    found = t.one("next_events", after=before, limit=limit)
    event, count = (None, 0) if found is None else found
    if event is not None:
        for status, change in _ended_changes(t, before, event).items():
            _add(t, "ended", ALL, status, change, 0)
        t.run("set_upto", {"name": "event", "id": event})
        _begin_runs(t, before, event)
    times: dict[tuple[str, str], list[int]] = {}
    for agent, outcome, duration in t.all("take_ended_runs"):
        if outcome is not None:  # otherwise its claim was deleted by hand
            times.setdefault((agent, outcome), []).append(duration)
    for (agent, outcome), durations in times.items():
        _add(t, "run", agent, outcome, len(durations), sum(durations))
    return bool(count >= limit)


def upto(t: Transaction, name: str) -> int:
    return int(t.scalar("upto", name=name) or 0)


class Kept:
    """The figures as they were counted, with the event and the run up to which they were, and the latest event. Those
    of runs and of first claims are an agent's or everybody's; `of_items` reads only those of items."""

    def __init__(self, found: list[tuple[Any, ...]]) -> None:
        self._found = found
        reached = {name: count for _, name, count, _ in self.of("upto")}
        self.event, self.run = reached.get("event", 0), reached.get("run", 0)
        self.latest = self.of("latest")[0][2] or self.event

    @classmethod
    def of_items(cls, t: Transaction) -> Kept:
        return cls(t.all("figures_of_items"))

    @classmethod
    def of_agent(cls, t: Transaction, agent: str | None) -> Kept:
        return cls(t.all("figures", agent=agent))

    def of(self, kind: str) -> list[tuple[str, str, int, int]]:
        """The agent, the name, the count and the total of each figure of this kind."""
        return [(agent, name, count, total) for its_kind, agent, name, count, total in self._found if its_kind == kind]


def ended_items(t: Transaction, kept: Kept) -> Counter[str]:
    """How many items have each status that is an end."""
    counted = Counter({name: count for _, name, count, _ in kept.of("ended")})
    if kept.latest - kept.event > RECOUNT_EVENTS:
        return Counter(dict(t.all("ended_by_status")))  # nobody has swept for long
    counted.update(_ended_changes(t, kept.event, kept.latest))
    return counted


def runs(t: Transaction, kept: Kept, agent: str | None) -> Runs:
    """The runs of an agent or of all, by agent and outcome; the outcome of a live one is `running`."""
    found: Runs = {}
    since = t.all("runs_since", agent=agent, after=kept.run)
    for name, outcome, count, total in (*kept.of("run"), *since):
        known = found.get((name, outcome), (0, 0))
        found[name, outcome] = known[0] + count, known[1] + int(total or 0)
    return found


def first_claims(t: Transaction, kept: Kept, agent: str | None) -> tuple[int, int]:
    """How many items were claimed, by this agent or by any, and the milliseconds until then, all together."""
    whose = ALL if agent is None else agent
    counted = [(count, total) for name, _, count, total in kept.of("first") if name == whose]
    since = [
        (count, total) for name, count, total in _first_claims(t, "first_claims_since", after=kept.run) if name == whose
    ]
    return sum(count for count, _ in (*counted, *since)), sum(total for _, total in (*counted, *since))


def take_out(t: Transaction, items: Iterable[str]) -> None:
    """Before these items are deleted with their events and runs: take out what was counted of them."""
    t.lock("lock_figures")
    ids, event, run = json_text.dumps(list(items)), upto(t, "event"), upto(t, "run")
    for status, count in t.all("counted_items", items=ids, upto=event):
        _add(t, "ended", ALL, status, -count, 0)
    for agent, outcome, count, total in t.all("counted_runs", items=ids, upto=run):
        _add(t, "run", agent, outcome, -count, -int(total))
    for agent, count, total in _first_claims(t, "counted_first_claims", items=ids, upto=run):
        _add(t, "first", agent, "", -count, -total)
    t.run("forget_uncounted_runs", {"items": ids})


def reset(t: Transaction) -> None:
    """Count again from the beginning, because history was replaced."""
    t.lock("lock_figures")
    for statement in ("delete_figures", "delete_uncounted_runs"):
        t.run(statement, {})


def _begin_runs(t: Transaction, before: int, event: int) -> None:
    """Count the runs up to the last one that was claimed by these events: every run up to it has been committed."""
    old = upto(t, "run")
    new = max(old, int(t.scalar("last_run_of_events", after=before, upto=event) or 0))
    if new > old:
        for agent, count, total in _first_claims(t, "first_claims_between", after=old, upto=new):
            _add(t, "first", agent, "", count, total)
        t.run("begin_runs", {"after": old, "upto": new})
        for agent, outcome, count, total in t.all("ended_runs_between", after=old, upto=new):
            _add(t, "run", agent, outcome, count, int(total))
        t.run("set_upto", {"name": "run", "id": new})


def _ended_changes(t: Transaction, after: int, event: int) -> Counter[str]:
    changes: Counter[str] = Counter()
    for before, now, count in t.all("ended_changes", after=after, upto=event):
        changes[now] += count
        changes[before or ""] -= count
    return Counter({status: changes[status] for status in ENDED if changes[status]})


def _first_claims(t: Transaction, statement: str, **parameters: Any) -> Iterator[tuple[str, int, int]]:
    """By agent, and for all: items whose first run by that agent, or by any, is among these runs."""
    count = total = 0
    for agent, is_first, its_count, its_total in t.all(statement, **parameters):
        yield agent, its_count, int(its_total)
        if is_first:
            count, total = count + its_count, total + int(its_total)
    yield ALL, count, total


def _add(t: Transaction, kind: str, agent: str, name: str, count: int, total: int) -> None:
    if count or total:
        t.run("add_figure", {"kind": kind, "agent": agent, "name": name, "count": count, "total": total})
