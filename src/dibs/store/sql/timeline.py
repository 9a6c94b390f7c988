"""The past of a board for dashboards: `window`, the runs of a stretch of time, and `series`, figures over time.

Ids of events and runs rise with time, so a stretch is found by a binary search on the ids and needs no index by time,
which every claim would have to maintain. Where the clock was set back, such a search may end a little off.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from dibs.errors import Invalid
from dibs.model import ENDED, STATUSES
from dibs.model.dashboard import Series, Window
from dibs.store.sql import projection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from dibs.store.sql.transaction import Transaction

WINDOW_SECONDS = 3600
SERIES_SECONDS = 4 * 3600
#: How many runs that began before a window are searched for those that reach into it, besides the live ones.
RUNS_BEFORE = 5_000
#: How many runs one window, and how many events one series, reads at most: the latest.
RUNS_SEARCHED = 100_000
EVENTS_SEARCHED = 200_000
#: How many times one series has for its percentiles.
TIMES_MAX = 50_000
#: A cost is what its caller says: how many names one series shows, how long they are, and how large their numbers.
COST_LIMITS = {"names": 10, "name_length": 64, "amount_max": 10**15}
#: Sums of a cost are rounded to so many digits, so that every store answers the same.
COST_DIGITS = 6
DEFAULT_POINTS, POINTS_MAX = 100, 500
UNENDED = tuple(status for status in STATUSES if status not in ENDED)
#: The kinds of events that a series counts, and under which name.
COUNTED = {
    **{"claimed": "claimed", "done": "done", "failed": "failed"},
    **{"expired": "expired", "owner_died": "expired"},
}


def window(
    t: Transaction,
    *,
    from_: int | None = None,
    to: int | None = None,
    since: float | None = None,
    agent: str | None = None,
    session: str | None = None,
    project: str | None = None,
    limit: int,
) -> Window:
    begin, end = _stretch(t, from_, to, since or WINDOW_SECONDS)
    projected = projection.of_board(t)
    last = _first_since(t, "run", end)
    first = max(_first_since(t, "run", begin) - RUNS_BEFORE, last - RUNS_SEARCHED)
    chosen = {"agent": agent, "session": session, "project": project}
    # One more than asked for, to know whether there are more.
    asked = {**chosen, "from": begin, "to": end, "first": first, "limit": limit + 1}
    runs = []
    for item, token, its_session, its_agent, started_at, ended_at, outcome in (
        *t.all("runs_in_window", **asked, last=last),
        *t.all("live_runs_before", **asked),
    ):
        state = projected.states.get(item)
        if state is not None and state.run is not None and state.run.token == token:
            ended_at, outcome = state.run.ended_at, state.run.outcome
        if ended_at is None or ended_at > begin:
            runs.append([item, token, its_session, its_agent, started_at, ended_at, outcome])
    refused = t.all("refused_in_window", **chosen, **{"from": begin, "to": end}, limit=limit + 1)
    return Window(
        from_at=begin,
        to_at=end,
        runs=tuple(runs[:limit]),
        refused=tuple(list(row) for row in refused[:limit]),
        truncated=len(runs) > limit or len(refused) > limit or first == last - RUNS_SEARCHED > 0,
    )


def series(
    t: Transaction,
    *,
    from_: int | None = None,
    to: int | None = None,
    since: float | None = None,
    step: float | None = None,
    project: str | None = None,
    agent: str | None = None,
) -> Series:
    begin, end = _stretch(t, from_, to, since or SERIES_SECONDS)
    step_ms = -(-(end - begin) // DEFAULT_POINTS) if step is None else round(step * 1000)
    points = -(-(end - begin) // step_ms)
    if points > POINTS_MAX:
        raise Invalid(f"that is more than {POINTS_MAX} points; take a longer step", field="step")
    newest = int(t.scalar("latest_event") or 0)
    first = max(_first_since(t, "event", begin), newest - EVENTS_SEARCHED)
    reached = begin if first > newest - EVENTS_SEARCHED or first <= 1 else _instant_of(t, "event", first)
    asked = {"from": begin, "step": step_ms, "first": first, "project": project}
    until = {**asked, "to": end, "agent": agent}
    known = range(min(points, max(0, (reached - begin) // step_ms)), points)

    def line(values: dict[int, Any], empty: Any) -> list[Any]:
        return [values.get(point, empty) if point in known else None for point in range(points)]

    counts: dict[str, Counter[int]] = {name: Counter() for name in COUNTED.values()}
    for point, kind, count in t.all("events_in_series", **until):
        if kind in COUNTED:
            counts[COUNTED[kind]][point] += count
    waits = t.all("waits_in_series", **until, limit=TIMES_MAX)
    durations = t.all("durations_in_series", **until, limit=TIMES_MAX)
    depth = _depth(t, asked, points)
    return Series(
        from_at=begin,
        step_seconds=step_ms / 1000,
        events={name: line(found, 0) for name, found in counts.items()},
        depth={status: line(dict(enumerate(found)), 0) for status, found in depth.items()},
        time_to_claim={name: line(found, None) for name, found in _percentiles(waits).items()},
        duration={name: line(found, None) for name, found in _percentiles(durations).items()},
        cost={name: line(found, 0) for name, found in _costs(t, until).items()},
        truncated=known.start > 0,
    )


def _stretch(t: Transaction, from_: int | None, to: int | None, seconds: float) -> tuple[int, int]:
    end = t.now + 1 if to is None else to  # an end is not part of its stretch, and now is
    begin = end - round(seconds * 1000) if from_ is None else from_
    if begin >= end:
        raise Invalid("from must be before to, which is now unless given", field="from")
    return begin, end


def _depth(t: Transaction, asked: dict[str, Any], points: int) -> dict[str, list[int]]:
    """How many items had each status that is not an end, at the end of each point: from what there is now, back."""
    now = Counter(dict(t.all("unended_by_status", project=asked["project"])))
    changes: dict[int, Counter[str]] = defaultdict(Counter)
    for point, before, after, count in t.all("changes_in_series", **asked):
        changes[min(point, points)][after] += count
        changes[min(point, points)][before or ""] -= count
    depth: dict[str, list[int]] = {status: [0] * points for status in UNENDED}
    for point in range(points - 1, -1, -1):
        now.subtract(changes[point + 1])
        for status in UNENDED:
            depth[status][point] = max(0, now[status])
    return depth


def _percentiles(found: Iterable[tuple[int, int]]) -> dict[str, dict[int, float]]:
    """The median and the 95th percentile of the times of each point, in seconds."""
    times: dict[int, list[int]] = defaultdict(list)
    for point, milliseconds in found:
        times[point].append(milliseconds)
    percentiles: dict[str, dict[int, float]] = {"p50": {}, "p95": {}}
    for point, sorted_times in ((point, sorted(values)) for point, values in times.items()):
        for name, share in (("p50", 0.5), ("p95", 0.95)):
            percentiles[name][point] = sorted_times[min(len(sorted_times) - 1, int(share * len(sorted_times)))] / 1000
    return percentiles


def costs_of_latest_runs(t: Transaction, agent: str | None, most: int) -> dict[str, float]:
    """What the latest `most` runs of the board have cost, by name; with an agent, only its own among them."""
    found = t.all("costs_of_latest_runs", agent=agent, most=most, **COST_LIMITS)
    return {name: _rounded(amount) for name, amount in sorted(found)}


def _costs(t: Transaction, until: dict[str, Any]) -> dict[str, dict[int, float]]:
    """What the runs that ended in each point have cost, by name."""
    costs: dict[str, dict[int, float]] = {}
    for point, name, amount in sorted(t.all("costs_in_series", **until, **COST_LIMITS), key=lambda row: row[1]):
        costs.setdefault(name, {})[point] = _rounded(amount)
    return costs


def _rounded(amount: float) -> float:
    return int(amount) if amount == int(amount) else round(amount, COST_DIGITS)


def _first_since(t: Transaction, kind: str, instant: int) -> int:
    """The lowest id of an event or a run at this instant or later; one above the highest if there is none."""
    low, high = (int(value or 0) for value in t.one(f"{kind}_range") or (0, 0))
    high += 1
    while low < high:
        middle = (low + high) // 2
        row = t.one(f"{kind}_from", id=middle)
        if row is not None and row[1] < instant:
            low = row[0] + 1
        else:
            high = middle
    return low


def _instant_of(t: Transaction, kind: str, id: int) -> int:
    row = t.one(f"{kind}_from", id=id)
    return t.now if row is None else int(row[1])
