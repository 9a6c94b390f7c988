"""`dibs stats`: the board in figures."""

from __future__ import annotations

from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import OUTCOME_COLOURS, STATUS_COLOURS, Paint, clean
from dibs.model import STATUSES
from dibs.text import priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Stats

BAR_COLUMNS = 24
NAME_COLUMNS = 22


def stats_options(parser: Parser) -> None:
    parser.option("--agent", metavar="NAME", help="claims, runs and sessions of this agent only")


def stats(cli: Cli) -> None:
    figures = cli.board.stats(agent=cli.args.agent)
    return cli.answer(figures) if cli.json else cli.say(*_shown(figures, cli.paint))


def _shown(figures: Stats, paint: Paint) -> list[str]:
    items = {status: figures.items.get(status, 0) for status in STATUSES}
    lines = [paint("items", "bold"), *_bars(items, STATUS_COLOURS, paint)]
    if figures.ready:
        ready = {f"{priorities.name(row['priority'])} {clean(str(row['type']))}": row["count"] for row in figures.ready}
        lines += ["", paint("ready, by priority and type", "bold"), *_bars(ready, {}, paint)]
    if figures.outcomes:
        outcomes = {outcome.replace("_", " "): count for outcome, count in figures.outcomes.items()}
        colours = {outcome.replace("_", " "): colour for outcome, colour in OUTCOME_COLOURS.items()}
        lines += ["", paint("runs, by outcome", "bold"), *_bars(outcomes, colours, paint)]
    lines += [
        "",
        paint("claims", "bold"),
        _line("active now", str(figures.active_claims)),
        _line("in all", str(figures.total_claims)),
        _line("waiting for an item", str(figures.waiters)),
        _line("live sessions", str(figures.live_sessions)),
        _line("conflicts avoided", str(figures.conflicts_avoided)),
        _line("claims that succeeded", _percent(figures.claim_success_rate)),
        _line("runs that failed", _percent(figures.failure_rate)),
        _line("time to claim", _time(figures.time_to_claim_seconds)),
        _line("time held", _time(figures.claim_duration_seconds)),
    ]
    return lines


def _bars(counts: dict[str, int], colours: dict[str, str], paint: Paint) -> list[str]:
    most = max(counts.values(), default=0) or 1
    return [
        f"{_line(name, str(count))}  {paint('▇' * -(-count * BAR_COLUMNS // most), colours.get(name, 'cyan'))}".rstrip()
        for name, count in counts.items()
    ]


def _line(name: str, value: str) -> str:
    return f"  {name:<{NAME_COLUMNS}}{value:>8}"


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.0f}ms" if seconds < 1 else times.span(seconds)
