"""What happened: the history of one item, the feed of the whole board, and the runs."""

from __future__ import annotations

import sys

from dibs import check, when
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import (
    OUTCOME_COLOURS,
    STATUS_COLOURS,
    Paint,
    agent_colour,
    ago,
    clean,
    clock,
    number_of,
    paragraphs,
    table,
    terminal_columns,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.model import Event, Run

RUNS_LIMIT = 50
EVENTS_LIMIT = 20
KIND_COLOURS = {
    "added": "green",
    "claimed": "cyan",
    "progress": "",
    "done": "green",
    "failed": "red",
    "expired": "yellow",
    "owner_died": "red",
    "force_released": "magenta",
    "cancelled": "magenta",
    "released": "yellow",
    "forgotten": "yellow",
    "retried": "green",
}


def log_options(parser: Parser) -> None:
    parser.item()


def log(cli: Cli) -> None:
    events = cli.board.log(cli.args.item)
    if cli.json:
        return cli.answer({"events": events})
    item = cli.board.get(cli.args.item).item
    status = cli.paint(item.status, STATUS_COLOURS.get(item.status, ""))
    cli.say(f"{cli.paint(item.id, 'bold')}  {clean(item.title)}  {status}")
    return cli.say(*event_lines(events, cli.paint, terminal_columns(sys.stdout)))


def event_lines(events: tuple[Event, ...], paint: Paint, columns: int | None) -> list[str]:
    """The events of one item, a line each."""
    rows = [[clock(event.at), event.kind.replace("_", " "), _who(event), *_told(event)] for event in events]
    styles = [["dim", KIND_COLOURS.get(event.kind, ""), _colour(event)] for event in events]
    return table(rows, styles=styles, shrink=(4, 2), columns=columns, paint=paint, indent="  ")


def events_options(parser: Parser) -> None:
    parser.option("--follow", help="go on with what comes, until Ctrl-C")
    parser.number("--after", help="from the event after this number, not just the latest")
    parser.limit(EVENTS_LIMIT)


def events(cli: Cli) -> None:
    asked = cli.args
    limit = check.limit(asked.limit)
    after = _latest(cli.board) - limit if asked.after is None else asked.after
    if asked.follow:
        return _follow(cli, max(after, 0) if asked.after is None else after)
    found = cli.board.events(after=max(after, 0) if asked.after is None else after, limit=limit)
    if cli.json:
        return cli.answer({"events": found})
    if not found:
        return cli.remark("no events")
    return cli.say(*_feed(found, cli.paint))


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


def _follow(cli: Cli, after: int) -> None:
    try:
        for event in cli.board.follow(after=after):
            if cli.json:
                cli.answer(event)
            else:
                cli.say(*_feed((event,), cli.paint))
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass  # how one ends it


def _feed(found: tuple[Event, ...], paint: Paint) -> list[str]:
    """The board's feed, a line each, in columns of fixed widths so that lines which come later still stand in them."""
    rows = [
        [
            f"{event.id:>5}",
            clock(event.at),
            f"{clean(event.item):<16}",
            f"{event.kind.replace('_', ' '):<14}",
            f"{_who(event):<12}",
            " ".join(filter(None, _told(event))),
        ]
        for event in found
    ]
    styles = [["dim", "dim", "bold", KIND_COLOURS.get(event.kind, ""), _colour(event)] for event in found]
    return table(rows, styles=styles, shrink=(5, 2), columns=terminal_columns(sys.stdout), paint=paint)


def _latest(board: Board) -> int:
    """The number of the latest event: found by halving, since the feed is only ever asked what comes after."""
    low, high = 0, 1
    while board.events(after=high, limit=1):
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if board.events(after=middle, limit=1) else (low, middle)
    return low


def _who(event: Event) -> str:
    """Who is to be named: the holder of the claim the event is about, else who acted."""
    return event.agent or event.actor


def _colour(event: Event) -> str:
    return agent_colour(event.agent) if event.agent else "dim"


def _told(event: Event) -> tuple[str, str]:
    """What the event tells besides its kind: the token it is about, and the rest in words."""
    data = event.data
    words = [one for one in (data.get("note"), data.get("reason")) if one]
    match event.kind:
        case "added":
            words = [data.get("title", "")]
        case "edited":
            words = [", ".join(f"{field} = {value}" for field, value in data.items())]
        case "claimed":
            words = [f"for {when.span(data['ttl_seconds'])}"] if "ttl_seconds" in data else []
        case "expired" | "owner_died":
            words = [number_of(data["strikes"], "strike"), *words] if "strikes" in data else words
    if event.agent and event.actor not in (event.agent, "dibs"):
        words.append(f"by {event.actor}")
    words += [f"{name}: {target}" for name, target in data.get("links", {}).items()]
    token = f"token {event.token}" if event.agent else ""
    return token, " ".join(" · ".join(words).split("\n"))


def _took(run: Run) -> str:
    return "" if run.ended_at is None else when.span((run.ended_at - run.started_at) / 1000)


def _ended(run: Run) -> str:
    return f"since {clock(run.started_at)}" if run.ended_at is None else ago(run.ended_at)


def _why(run: Run) -> str:
    return " ".join(paragraphs(run.reason or "", ""))
