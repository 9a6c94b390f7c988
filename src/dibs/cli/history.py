"""What happened: the history of one item, the event feed of the board, the runs, and counts and rates."""

from __future__ import annotations

import sys

from dibs import check
from dibs.cli.context import Cli
from dibs.cli.event_lines import OUTCOME_COLOURS, feed_lines, item_lines
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import (
    STATUS_COLOURS,
    Paint,
    agent_colour,
    ago,
    clean,
    clock,
    paragraphs,
    terminal_columns,
)
from dibs.model import STATUSES
from dibs.rules.event_kinds import BY_NAME
from dibs.text import priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.board import Board
    from dibs.model import Event, Run, Stats

RUNS_LIMIT = 50
EVENTS_LIMIT = 20
#: Each search for the newest events of some kinds reads this many times as many events as the one before.
WINDOW_GROWTH = 8
#: The widest bar of `stats`, and the width of its names.
BAR_COLUMNS = 24
NAME_COLUMNS = 22


def log_options(parser: Parser) -> None:
    parser.item()


def log(cli: Cli) -> None:
    events = cli.board.log(cli.args.item)
    if cli.json:
        return cli.print_json({"events": events})
    item = cli.board.get(cli.args.item).item
    status = cli.paint(item.status, STATUS_COLOURS.get(item.status, ""))
    cli.print(f"{cli.paint(item.id, 'bold')}  {clean(item.title)}  {status}")
    return cli.print(*item_lines(events, cli.paint, terminal_columns(sys.stdout)))


def events_options(parser: Parser) -> None:
    parser.option("--follow", help="keep printing new events, until Ctrl-C")
    parser.option("--kind", metavar="KIND", help="only claimable, done, ...; repeatable", repeated=True)
    parser.number("--after", help="start after event N (default: show the latest)")
    parser.limit(EVENTS_LIMIT)


def events(cli: Cli) -> None:
    args = cli.args
    limit, kinds = check.limit(args.limit), _parse_kinds(args.kind)
    if args.follow:
        return _follow(cli, kinds, limit)
    if args.after is None:
        found, _ = _newest(cli.board, kinds, limit)
    else:
        found = _after(cli.board, args.after, kinds, limit)
    if cli.json:
        return cli.print_json({"events": found})
    if not found:
        return cli.notice("no events")
    return cli.print(*feed_lines(found, cli.paint, terminal_columns(sys.stdout)))


def _parse_kinds(texts: list[str]) -> frozenset[str]:
    """The kinds to show; an empty set means all. An unknown kind is refused, because it would never match."""
    kinds = frozenset(kind.replace("-", "_").replace(" ", "_") for kind in texts)
    for kind in sorted(kinds - BY_NAME.keys()):
        raise UsageError(f"unknown kind of event {kind!r}; choose one of {', '.join(sorted(BY_NAME))}", field="kind")
    return kinds


def _newest(board: Board, kinds: frozenset[str], limit: int) -> tuple[tuple[Event, ...], int | None]:
    """The newest events of these kinds, and the number of the newest event of any kind, where `_follow` continues."""
    window = limit
    while True:
        events = board.events(newest=True, limit=window)
        found = _of_kinds(events, kinds)[-limit:]
        if len(found) == limit or len(events) < window or window == check.LIST_MAX:
            return found, events[-1].id if events else None
        window = min(WINDOW_GROWTH * window, check.LIST_MAX)


def _after(board: Board, after: int, kinds: frozenset[str], limit: int) -> tuple[Event, ...]:
    """The first events of these kinds after a number."""
    found: tuple[Event, ...] = ()
    while len(found) < limit:
        events = board.events(after=after, limit=limit)
        found += _of_kinds(events, kinds)
        if len(events) < limit:
            break
        after = events[-1].id
    return found[:limit]


def _of_kinds(events: Iterable[Event], kinds: frozenset[str]) -> tuple[Event, ...]:
    return tuple(event for event in events if not kinds or event.kind in kinds)


def _follow(cli: Cli, kinds: frozenset[str], limit: int) -> None:
    """Print the events after `--after`, or the newest few, and then new events as they come."""
    after: int | None = cli.args.after
    try:
        if after is None:
            newest, after = _newest(cli.board, kinds, limit)
            _print_events(cli, newest)
        for event in cli.board.follow(after=after):
            _print_events(cli, _of_kinds((event,), kinds))
    except KeyboardInterrupt:
        pass


def _print_events(cli: Cli, events: tuple[Event, ...]) -> None:
    for event in events:
        if cli.json:
            cli.print_json(event)
        else:
            cli.print(*feed_lines((event,), cli.paint, terminal_columns(sys.stdout), follow=True))
    sys.stdout.flush()


def runs_options(parser: Parser) -> None:
    parser.option("--item", metavar="ID", help="only runs of this item")
    parser.option("--agent", metavar="NAME", help="only runs of this agent")
    parser.option("--session", metavar="ID", help="only runs of this session")
    parser.limit(RUNS_LIMIT)


def runs(cli: Cli) -> None:
    args = cli.args
    found = cli.board.runs(item=args.item, session=args.session, agent=args.agent, limit=args.limit)
    if cli.json:
        return cli.print_json({"runs": found})
    if not found:
        return cli.notice("no runs")
    header = ("item", "token", "agent", "outcome", "took", "ended", "reason")
    styles = [
        ["bold", "dim", agent_colour(run.agent), OUTCOME_COLOURS.get(run.outcome or "", ""), "", "dim"] for run in found
    ]
    rows = list(map(_run_row, found))
    return cli.print(*cli.table(rows, header=header, styles=styles, shrink=(6, 2), right=(1, 4), keep=(0,)))


def _run_row(run: Run) -> list[str]:
    took, ended = "", f"since {clock(run.started_at)}"
    if run.ended_at is not None:
        took, ended = times.span((run.ended_at - run.started_at) / 1000), ago(run.ended_at)
    reason = " ".join(paragraphs(run.reason or "", ""))
    return [run.item, str(run.token), run.agent, run.outcome or "running", took, ended, reason]


def stats_options(parser: Parser) -> None:
    parser.option("--agent", metavar="NAME", help="only claims, runs and sessions of this agent")
    parser.duration("--since", "since", "how the figures changed over this time")


def stats(cli: Cli) -> None:
    if cli.args.since is not None:
        from dibs.cli import series_lines

        return series_lines.show(cli)
    figures = cli.board.stats(agent=cli.args.agent)
    return cli.print_json(figures) if cli.json else cli.print(*_stats_lines(figures, cli.paint))


def _stats_lines(figures: Stats, paint: Paint) -> list[str]:
    items = {status: figures.items.get(status, 0) for status in STATUSES}
    lines = [paint("items", "bold"), *_bars(items, STATUS_COLOURS, paint)]
    if figures.ready:
        ready = {f"{priorities.name(row['priority'])} {clean(str(row['type']))}": row["count"] for row in figures.ready}
        lines += ["", paint("ready, by priority and type", "bold"), *_bars(ready, {}, paint)]
    if figures.outcomes:
        outcomes = {outcome.replace("_", " "): count for outcome, count in figures.outcomes.items()}
        colours = {outcome.replace("_", " "): colour for outcome, colour in OUTCOME_COLOURS.items()}
        lines += ["", paint("runs, by outcome", "bold"), *_bars(outcomes, colours, paint)]
    claims = {
        "active now": str(figures.active_claims),
        "in all": str(figures.total_claims),
        "waiters": str(figures.waiters),
        "live sessions": str(figures.live_sessions),
        "conflicts avoided": str(figures.conflicts_avoided),
        "claims that succeeded": _percent(figures.claim_success_rate),
        "runs that failed": _percent(figures.failure_rate),
        "time to claim": _time(figures.time_to_claim_seconds),
        "time held": _time(figures.claim_duration_seconds),
    }
    lines += ["", paint("claims", "bold"), *(_figure(name, value) for name, value in claims.items())]
    if figures.cost:
        costs = (_figure(clean(name), f"{amount:,.10g}") for name, amount in figures.cost.items())
        lines += ["", paint("cost of the latest runs", "bold"), *costs]
    return lines


def _bars(counts: dict[str, int], colours: dict[str, str], paint: Paint) -> list[str]:
    most = max(counts.values(), default=0) or 1
    lines = []
    for name, count in counts.items():
        bar = "▇" * -(-count * BAR_COLUMNS // most)
        lines.append(f"{_figure(name, str(count))}  {paint(bar, colours.get(name, 'cyan'))}".rstrip())
    return lines


def _figure(name: str, value: str) -> str:
    return f"  {name:<{NAME_COLUMNS}}{value:>8}"


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.0f}ms" if seconds < 1 else times.span(seconds)
