"""`dibs timeline`: who held what, as bars on an axis of time, with the claims that were lost and refused.

Each session, agent or item has a lane. A run is a bar with the name of its item, if there is room, and ends with a mark
for its outcome; the marks say everything that the colours say. Runs of one lane that overlap in time have a line each.
"""

from __future__ import annotations

import sys
import time

from dibs import check
from dibs.cli.context import Cli
from dibs.cli.event_lines import OUTCOME_COLOURS
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import (
    GAP,
    Paint,
    agent_colour,
    clean,
    cut,
    number_of,
    terminal_columns,
    width,
)
from dibs.rules.event_kinds import OUTCOMES, PLAIN, REJECTED, RUN_ENDS, RunEnd
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.model.dashboard import Window

SINCE_SECONDS = 4 * 3600.0
#: How long before the first bar a picture begins, if nothing says since when.
MARGIN_MS = 1000
LANES_LIMIT = 40
#: The most that `window` gives.
RUNS_MAX = 5000
#: The width of the picture where there is no terminal, and the least that the bars have.
PLAIN_COLUMNS = 100
BARS_MIN, LABEL_MIN = 10, 8
LANES = ("session", "agent", "item")
NOTHING = "no run and no refused claim in this time"
BAR, LIVE, REFUSED = "▇", "▶", "◆"
#: The mark of an outcome that this version does not know, and the order of what can share a place: the later is shown.
OTHER = RunEnd(sign="·", word="ended", tone=PLAIN, sentence="")
_AT_TROUBLE = RUN_ENDS.index(REJECTED)
_SIGNS = tuple(end.sign for end in RUN_ENDS)
RANKS = {
    mark: rank
    for rank, mark in enumerate((" ", BAR, OTHER.sign, *_SIGNS[:_AT_TROUBLE], LIVE, *_SIGNS[_AT_TROUBLE:], REFUSED))
}
#: The distances of the times on the axis, in seconds, and the least columns between two of them.
TICK_SECONDS = (
    *(1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200),
    *(days * 86400 for days in (1, 2, 7, 30, 90, 180, 365)),
)
TICK_COLUMNS = 12
DAY_MS, MONTH_MS = 86_400_000, 2_592_000_000


class Bar(Value):
    """A run; `end` is that of the picture while the run is live."""

    item: str
    agent: str
    start: int
    end: int
    outcome: str | None


class Row(Value):
    """A line of a lane: bars that do not overlap in time, and when claims were refused."""

    label: str
    number: int
    agent: str | None
    bars: list[Bar]
    refused: list[int]


class Lane:
    def __init__(self, label: str, agent: str | None) -> None:
        self.label, self.agent = label, agent
        self.bars: list[Bar] = []
        self.refused: list[int] = []

    @property
    def earliest(self) -> int:
        return min([bar.start for bar in self.bars] + self.refused)

    @property
    def latest(self) -> int:
        return max([bar.end for bar in self.bars] + self.refused)

    def rows(self) -> list[Row]:
        """The bars on as few lines as they need."""
        lines: list[list[Bar]] = []
        for bar in sorted(self.bars, key=lambda bar: bar.start):
            line = next((line for line in lines if line[-1].end <= bar.start), None)
            if line is None:
                lines.append([bar])
            else:
                line.append(bar)
        return [
            Row(label=self.label, number=number, agent=self.agent, bars=bars, refused=[] if number else self.refused)
            for number, bars in enumerate(lines or [[]])
        ]


class Axis:
    """Instants as columns."""

    def __init__(self, begin: int, end: int, columns: int) -> None:
        self.begin, self.end, self.columns = begin, end, columns

    def column(self, instant: int) -> int:
        at = (instant - self.begin) * self.columns // (self.end - self.begin)
        return max(0, min(self.columns - 1, at))

    def line(self) -> str:
        """The times below the bars, in local time."""
        span = (self.end - self.begin) / 1000
        fitting = (step for step in TICK_SECONDS if step * self.columns >= TICK_COLUMNS * span)
        step = next(fitting, TICK_SECONDS[-1]) * 1000
        offset = (time.localtime(self.begin / 1000).tm_gmtoff or 0) * 1000
        text, now = "", "now"
        for instant in range(-(-(self.begin + offset) // step) * step - offset, self.end, step):
            tick = self._tick(instant, step)
            column = self.column(instant)
            if len(text) <= column and column + len(tick) < self.columns - len(now):
                text = text.ljust(column) + tick
        return text.ljust(self.columns - len(now)) + now

    def _tick(self, instant: int, step: int) -> str:
        at = time.localtime(instant / 1000)
        is_day = step >= DAY_MS or (self.end - self.begin > DAY_MS and at[3:6] == (0, 0, 0))
        if step >= MONTH_MS:
            return time.strftime("%Y-%m", at)
        return time.strftime("%m-%d" if is_day else "%H:%M" if step >= 60_000 else "%H:%M:%S", at)


def timeline_options(parser: Parser) -> None:
    parser.duration("--since", "since", "how far back (default: 4h)")
    parser.option("--by", metavar="WHAT", help="a lane for each session, agent or item (session)", default=LANES[0])
    parser.option("--agent", metavar="NAME", help="only runs of this agent")
    parser.option("--session", metavar="ID", help="only runs of this session")
    parser.option("--project", metavar="P", help="only runs of items of this project")
    parser.limit(LANES_LIMIT)


def timeline(cli: Cli) -> None:
    args = cli.args
    if args.by not in LANES:
        raise UsageError(f"unknown lanes {args.by!r}; choose one of {', '.join(LANES)}", field="by")
    limit = check.limit(args.limit)
    whose = {"agent": args.agent, "session": args.session, "project": args.project}
    window = cli.board.window(since=SINCE_SECONDS if args.since is None else args.since, **whose, limit=RUNS_MAX)
    if cli.json:
        return cli.print_json(window)
    columns = terminal_columns(sys.stdout) or PLAIN_COLUMNS
    lines, left_off = picture(
        *(window, window.from_at, window.to_at),
        by=args.by,
        trims=args.since is None,
        limit=limit,
        columns=columns,
        paint=cli.paint,
    )
    if not lines:
        return cli.notice(NOTHING)
    cli.print(*lines)
    if left_off:
        cli.notice(f"{number_of(left_off, 'line')} left off; see --limit")
    if window.truncated:
        cli.notice("there were more runs than shown: name an agent, a session or a project, or a shorter time")
    return None


def picture(
    window: Window, begin: int, end: int, *, by: str, trims: bool, limit: int, columns: int, paint: Paint
) -> tuple[list[str], int]:
    """The lanes that were last in use, the axis and the legend; and how many lines were left off. No line if nothing
    happened. With `trims`, the picture begins shortly before the first bar."""
    lanes = _lanes(window, by, begin, end)
    if not lanes:
        return [], 0
    if trims:
        begin = max(begin, min(lane.earliest for lane in lanes) - MARGIN_MS)
    # `dibs top` estimates what time it is on the board.
    end = max(end, *(lane.latest for lane in lanes))
    rows = [row for lane in sorted(lanes, key=lambda lane: -lane.latest) for row in lane.rows()]
    lines = [*_lines(rows[:limit], begin, end, columns, paint), *_legend(window, columns, paint)]
    return lines, max(0, len(rows) - limit)


def _lanes(window: Window, by: str, begin: int, now: int) -> list[Lane]:
    agents = {session: agent for _, _, session, agent, *_ in window.runs}
    lanes: dict[str, Lane] = {}

    def lane(item: str, session: str) -> Lane:
        agent = agents.get(session)
        label = {"session": _label(session, agent), "agent": agent or session, "item": item}[by]
        return lanes.setdefault(label, Lane(clean(label), None if by == "item" else agent))

    for item, _, session, agent, started_at, ended_at, outcome in window.runs:
        start = max(begin, started_at)
        bar = Bar(item=item, agent=agent, start=start, end=ended_at or max(start, now), outcome=outcome)
        lane(item, session).bars.append(bar)
    for at, item, session, _ in window.refused:
        lane(item, session).refused.append(at)
    return list(lanes.values())


def _label(session: str, agent: str | None) -> str:
    """The session with its agent, unless its id says the agent already."""
    return session if agent is None or session.startswith(agent) else f"{agent} {session}"


def _lines(rows: Sequence[Row], begin: int, end: int, columns: int, paint: Paint) -> list[str]:
    label_columns = min(max(width(row.label) for row in rows), max(LABEL_MIN, columns // 4))
    axis = Axis(begin, end, max(BARS_MIN, columns - label_columns - len(GAP)))
    lines = []
    for row in sorted(rows, key=lambda row: (row.label, row.number)):
        label = cut(row.label, label_columns) if row.number == 0 else ""
        shown = paint(label, agent_colour(row.agent) if row.agent else "") + " " * (label_columns - width(label))
        lines.append(f"{shown}{GAP}{_picture(row, axis, paint)}".rstrip())
    return [*lines, " " * label_columns + GAP + paint(axis.line(), "dim")]


def _picture(row: Row, axis: Axis, paint: Paint) -> str:
    cells, colours = [" "] * axis.columns, [""] * axis.columns

    def put(column: int, character: str, colour: str) -> None:
        if RANKS.get(character, 0) >= RANKS.get(cells[column], 0):
            cells[column], colours[column] = character, colour

    for bar in row.bars:
        first, last = axis.column(bar.start), axis.column(bar.end)
        for column in range(first, last + 1):
            put(column, BAR, agent_colour(bar.agent))
        name = bar.agent if row.agent is None else bar.item
        mark = LIVE if bar.outcome is None else OUTCOMES.get(bar.outcome, OTHER).sign
        room = last - first - 2
        if name.isascii() and name.isprintable() and 0 < len(name) <= room:
            cells[first + 1 : first + 1 + len(name)] = name
            colours[first + 1 : first + 1 + len(name)] = [""] * len(name)
        put(last, mark, OUTCOME_COLOURS.get(bar.outcome or "", ""))
    for at in row.refused:
        put(axis.column(at), REFUSED, "red")
    return _painted(cells, colours, paint)


def _painted(cells: list[str], colours: list[str], paint: Paint) -> str:
    """The cells as text, neighbours of one colour together."""
    text, begin = "", 0
    for at in range(1, len(cells) + 1):
        if at == len(cells) or colours[at] != colours[begin]:
            text += paint("".join(cells[begin:at]), colours[begin])
            begin = at
    return text


def _legend(window: Window, columns: int, paint: Paint) -> list[str]:
    """The marks that are in use, and how often."""
    counts: dict[tuple[str, str], int] = {}
    for *_, outcome in window.runs:
        end = OUTCOMES.get(outcome, OTHER)
        mark = (LIVE, "live") if outcome is None else (end.sign, end.word)
        counts[mark] = counts.get(mark, 0) + 1
    if window.refused:
        counts[REFUSED, "refused"] = len(window.refused)
    lines = [""]
    for sign, meaning in sorted(counts):
        part = f"{sign} {counts[sign, meaning]} {meaning}   "
        if lines[-1] and len(lines[-1] + part.rstrip()) > columns:
            lines.append("")
        lines[-1] += part
    return [paint(line.rstrip(), "dim") for line in lines]
