"""`dibs stats --since`: how the figures of a board changed, a line of small bars for each."""

from __future__ import annotations

import sys

from dibs.cli.context import Cli
from dibs.cli.event_lines import OUTCOME_COLOURS
from dibs.cli.render import STATUS_COLOURS, Paint, clean, cut, terminal_columns, width
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model.dashboard import Series

    Values = list[Any]
    #: Pieces of a line, each with its colour.
    Row = tuple[tuple[str, str], ...]

BARS = "▁▂▃▄▅▆▇█"
NAME_COLUMNS, FIGURE_COLUMNS = 20, 24
#: Below this width, a line has one figure only.
WIDE_COLUMNS, ONE_FIGURE_COLUMNS = 60, 12
PLAIN_COLUMNS = 100
POINTS_MIN, POINTS_MAX = 8, 120
TRUNCATED = "there were too many events: the first part is not known"


def show(cli: Cli) -> None:
    seconds = cli.args.since
    columns = terminal_columns(sys.stdout) or PLAIN_COLUMNS
    series = cli.board.series(since=seconds, step=step_seconds(seconds, columns), agent=cli.args.agent)
    if cli.json:
        return cli.print_json(series)
    cli.print(*series_lines(series, cli.paint, columns))
    if series.truncated:
        cli.notice(TRUNCATED)
    return None


def step_seconds(seconds: float, columns: int) -> float:
    """As many steps in this time as there is room for bars."""
    # Rounded up: a step more than there is room for would not fit.
    return max(1.0, -(-seconds * 1000 // _points(columns)) / 1000)


def _points(columns: int) -> int:
    """How many bars a line of this width has room for."""
    figures = FIGURE_COLUMNS if columns >= WIDE_COLUMNS else ONE_FIGURE_COLUMNS
    return max(POINTS_MIN, min(POINTS_MAX, columns - NAME_COLUMNS - figures))


def series_lines(series: Series, paint: Paint, columns: int) -> list[str]:
    """The lines at this width. Of a series that was read for a wider line, the latest bars are shown."""
    step, points = times.span(series.step_seconds), _points(columns)
    rows: list[Row] = [_heading("items", "at the end of each step")]
    for status, values in series.depth.items():
        if any(values) or status in ("ready", "in_progress"):
            figures = (f"{_last(values):g}", f", most {_most(values):g}")
            rows.append(_row(status.replace("_", " "), values, figures, STATUS_COLOURS.get(status, ""), points))
    rows += [(), _heading("events", f"in each step of {step}")]
    for name, values in series.events.items():
        figures = (f"{_total(values):g}", " in all")
        rows.append(_row(name, values, figures, OUTCOME_COLOURS.get(name, "cyan"), points))
    rows += [(), _heading("times", "half of all, and all but one in twenty, took at most")]
    for name, percentiles in (("time to claim", series.time_to_claim), ("time held", series.duration)):
        for percentile, values in percentiles.items():
            rows.append(_row(f"{name} {percentile}", values, _times(values), "blue", points))
    if series.cost:
        rows += [(), _heading("cost", f"in each step of {step}")]
    for name, values in series.cost.items():
        rows.append(_row(name, values, (_amount(_total(values)), " in all"), "magenta", points))
    return [_line(row, paint, columns) for row in rows]


def _heading(name: str, about: str) -> Row:
    return ((name, "bold"), (f"  {about}", "dim"))


def _row(name: str, values: Values, figures: tuple[str, str], colour: str, points: int) -> Row:
    """The name, the bars, the most important figure, and what a narrow line leaves off."""
    label = cut(clean(name), NAME_COLUMNS - 3)
    label = f"  {label}{' ' * (NAME_COLUMNS - 2 - width(label))}"
    return ((label, ""), (bars(values)[-points:], colour), (f"  {figures[0]}", ""), (figures[1], ""))


def _line(row: Row, paint: Paint, columns: int) -> str:
    """The pieces, as far as there is room."""
    line = ""
    for text, colour in row if columns >= WIDE_COLUMNS else row[:3]:
        shown = cut(text, columns)
        line += paint(shown, colour)
        columns -= width(shown)
    return line.rstrip()


def bars(values: Values) -> str:
    """A small bar for each value; the lowest is zero only, and an unknown value is a space."""
    most = _most(values)
    return "".join(" " if value is None else BARS[_level(value, most)] for value in values)


def _level(value: float, most: float) -> int:
    if value <= 0:
        return 0
    return max(1, min(len(BARS) - 1, round(value / most * (len(BARS) - 1))))


def _times(values: Values) -> tuple[str, str]:
    if not _known(values):
        return "-", ""
    return _span(_last(values)), f", most {_span(_most(values))}"


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else times.span(seconds)


def _known(values: Values) -> Values:
    return [value for value in values if value is not None]


def _last(values: Values) -> float:
    return float((_known(values) or [0])[-1])


def _most(values: Values) -> float:
    return float(max(_known(values), default=0))


def _total(values: Values) -> float:
    return float(sum(_known(values)))


def _amount(total: float) -> str:
    return f"{total:,.0f}" if total >= 1000 else f"{total:.4g}"
