"""What happened: the history of one item, the feed of the whole board, and the runs."""

from __future__ import annotations

import sys

from dibs import check
from dibs.cli.context import Cli
from dibs.cli.event_lines import KINDS, feed_lines, item_lines
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import (
    OUTCOME_COLOURS,
    STATUS_COLOURS,
    agent_colour,
    ago,
    clean,
    clock,
    paragraphs,
    table,
    terminal_columns,
)
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.board import Board
    from dibs.model import Event, Run

RUNS_LIMIT = 50
EVENTS_LIMIT = 20
#: How much further back each look for events of some kinds goes than the one before.
FURTHER = 8


def log_options(parser: Parser) -> None:
    parser.item()


def log(cli: Cli) -> None:
    events = cli.board.log(cli.args.item)
    if cli.json:
        return cli.answer({"events": events})
    item = cli.board.get(cli.args.item).item
    status = cli.paint(item.status, STATUS_COLOURS.get(item.status, ""))
    cli.say(f"{cli.paint(item.id, 'bold')}  {clean(item.title)}  {status}")
    return cli.say(*item_lines(events, cli.paint, terminal_columns(sys.stdout)))


def events_options(parser: Parser) -> None:
    parser.option("--follow", help="go on with what comes, until Ctrl-C")
    parser.option("--kind", metavar="KIND", help="only claimable, done, ...; may be repeated", repeated=True)
    parser.number("--after", help="from the event after this number, not just the latest")
    parser.limit(EVENTS_LIMIT)


def events(cli: Cli) -> None:
    asked = cli.args
    limit, kinds = check.limit(asked.limit), _kinds(asked.kind)
    if asked.follow:
        return _follow(cli, kinds, limit)
    if asked.after is None:
        found, _ = _newest(cli.board, kinds, limit)
    else:
        found = _after(cli.board, asked.after, kinds, limit)
    if cli.json:
        return cli.answer({"events": found})
    if not found:
        return cli.remark("no events")
    return cli.say(*feed_lines(found, cli.paint, terminal_columns(sys.stdout)))


def runs_options(parser: Parser) -> None:
    parser.option("--item", metavar="ID", help="only of this item")
    parser.option("--agent", metavar="NAME", help="only by this agent")
    parser.option("--session", metavar="ID", help="only by this session")
    parser.limit(RUNS_LIMIT)


def runs(cli: Cli) -> None:
    asked = cli.args
    found = cli.board.runs(item=asked.item, session=asked.session, agent=asked.agent, limit=asked.limit)
    if cli.json:
        return cli.answer({"runs": found})
    if not found:
        return cli.remark("no runs")
    rows, styles = [], []
    for run in found:
        rows.append([run.item, str(run.token), run.agent, run.outcome or "running", _took(run), _ended(run), _why(run)])
        styles.append(["bold", "dim", agent_colour(run.agent), OUTCOME_COLOURS.get(run.outcome or "", ""), "", "dim"])
    header = ("item", "token", "agent", "outcome", "took", "ended", "reason")
    columns = terminal_columns(sys.stdout)
    return cli.say(
        *table(rows, header=header, styles=styles, shrink=(6, 0), right=(1, 4), columns=columns, paint=cli.paint)
    )


def _kinds(asked: list[str]) -> frozenset[str]:
    """The kinds to keep to; none means all. One that does not exist would be waited for in vain."""
    kinds = frozenset(kind.replace("-", "_").replace(" ", "_") for kind in asked)
    for kind in sorted(kinds - KINDS.keys()):
        raise UsageError(f"{kind!r} is no kind of event; {', '.join(sorted(KINDS))} are", field="kind")
    return kinds


def _newest(board: Board, kinds: frozenset[str], limit: int) -> tuple[tuple[Event, ...], int | None]:
    """The latest events of these kinds, and the number of the latest of all: where to go on from."""
    window = limit
    while True:
        events = board.events(newest=True, limit=window)
        found = _of_kinds(events, kinds)[-limit:]
        if len(found) == limit or len(events) < window or window == check.LIST_MAX:
            return found, events[-1].id if events else None
        window = min(FURTHER * window, check.LIST_MAX)


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
    """Everything after the given number, or the latest few, and then whatever comes."""
    after: int | None = cli.args.after
    try:
        if after is None:
            latest, after = _newest(cli.board, kinds, limit)
            _tell(cli, latest)
        for event in cli.board.follow(after=after):
            _tell(cli, _of_kinds((event,), kinds))
    except KeyboardInterrupt:
        pass  # how one ends it


def _tell(cli: Cli, events: tuple[Event, ...]) -> None:
    """Events as they come, one line each."""
    for event in events:
        if cli.json:
            cli.answer(event)
        else:
            cli.say(*feed_lines((event,), cli.paint, terminal_columns(sys.stdout), follow=True))
    sys.stdout.flush()


def _took(run: Run) -> str:
    return "" if run.ended_at is None else times.span((run.ended_at - run.started_at) / 1000)


def _ended(run: Run) -> str:
    return f"since {clock(run.started_at)}" if run.ended_at is None else ago(run.ended_at)


def _why(run: Run) -> str:
    return " ".join(paragraphs(run.reason or "", ""))
