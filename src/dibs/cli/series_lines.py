"""`dibs stats --since`: how the figures of a board changed, a line of small bars for each."""

from __future__ import annotations

import sys

from dibs.cli.context import Cli
from dibs.cli.render import OUTCOME_COLOURS, STATUS_COLOURS, Paint, now_ms, terminal_columns
from dibs.cli.timeline import since_seconds
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model.dashboard import Series

    Values = list[Any]

BARS = "▁▂▃▄▅▆▇█"
NAME_COLUMNS, FIGURE_COLUMNS = 20, 24
PLAIN_COLUMNS = 100
POINTS_MIN, POINTS_MAX = 10, 120
TRUNCATED = "there were too many events: the first part is not known"


def show(cli: Cli) -> None:
    seconds = since_seconds(cli.args.since, 0)
    columns = terminal_columns(sys.stdout) or PLAIN_COLUMNS
    begin = now_ms() - round(seconds * 1000)
    series = cli.board.series(from_=begin, step=step_seconds(seconds, columns), agent=cli.args.agent)
    if cli.json:
        return cli.print_json(series)
    cli.print(*series_lines(series, cli.paint))
    if series.truncated:
        cli.notice(TRUNCATED)
    return None


def step_seconds(seconds: float, columns: int) -> float:
    """As many steps in this time as there is room for bars."""
    points = max(POINTS_MIN, min(POINTS_MAX, columns - NAME_COLUMNS - FIGURE_COLUMNS))
    return max(1.0, seconds / points)


def series_lines(series: Series, paint: Paint) -> list[str]:
    step = times.span(series.step_seconds)
    lines = [_heading(paint, "items", "at the end of each step")]
    for status, values in series.depth.items():
        if any(values) or status in ("ready", "in_progress"):
            figures = f"{_last(values):g}, most {_most(values):g}"
            lines.append(_line(paint, status.replace("_", " "), values, figures, STATUS_COLOURS.get(status, "")))
    lines += ["", _heading(paint, "events", f"in each step of {step}")]
    for name, values in series.events.items():
        lines.append(_line(paint, name, values, f"{_total(values):g} in all", OUTCOME_COLOURS.get(name, "cyan")))
    lines += ["", _heading(paint, "times", "half of all, and all but one in twenty, took at most")]
    for name, percentiles in (("time to claim", series.time_to_claim), ("time held", series.duration)):
        for percentile, values in percentiles.items():
            lines.append(_line(paint, f"{name} {percentile}", values, _times(values), "blue"))
    if series.cost:
        lines += ["", _heading(paint, "cost", f"in each step of {step}")]
    for name, values in series.cost.items():
        lines.append(_line(paint, name, values, f"{_amount(_total(values))} in all", "magenta"))
    return lines


def _heading(paint: Paint, name: str, about: str) -> str:
    return f"{paint(name, 'bold')}  {paint(about, 'dim')}"


def _line(paint: Paint, name: str, values: Values, figures: str, colour: str) -> str:
    return f"  {name[: NAME_COLUMNS - 3]:<{NAME_COLUMNS - 2}}{paint(bars(values), colour)}  {figures}"


def bars(values: Values) -> str:
    """A small bar for each value; the lowest is zero only, and an unknown value is a space."""
    most = _most(values)
    return "".join(" " if value is None else BARS[_level(value, most)] for value in values)


def _level(value: float, most: float) -> int:
    if value <= 0:
        return 0
    return max(1, min(len(BARS) - 1, round(value / most * (len(BARS) - 1))))


def _times(values: Values) -> str:
    if not _known(values):
        return "-"
    return f"{_span(_last(values))}, most {_span(_most(values))}"


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
