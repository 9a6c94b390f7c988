"""`dibs who`: by agent, every live claim with its age, its health and the time left; and what nobody holds any more."""

from __future__ import annotations

import os
import sys

from dibs import when
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clock, number_of, table, terminal_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Holding

HEALTH_COLOURS = {
    "healthy": "green",
    "stale": "yellow",
    "warning": "yellow",
    "orphaned": "magenta",
    "expiring": "red",
    "expired": "red",
}
REDRAW_SECONDS = 1.0
#: The alternate screen without a cursor, and back: what stood in the terminal before stands there after.
ENTER, LEAVE, HOME, CLEAR_LINE, CLEAR_BELOW = (
    "\x1b[?1049h\x1b[?25l",
    "\x1b[?25h\x1b[?1049l",
    "\x1b[H",
    "\x1b[K",
    "\x1b[J",
)


def who_options(parser: Parser) -> None:
    parser.option("--watch", help="keep showing it, until Ctrl-C")


def who(cli: Cli) -> None:
    if cli.args.watch:
        return _watch(cli)
    return _show(cli)


def _show(cli: Cli) -> None:
    holdings = cli.board.who()
    if cli.json:
        cli.answer({"holdings": holdings})
    elif holdings:
        cli.say(*lines(cli, holdings))
    else:
        cli.say("nobody is on anything")


def lines(cli: Cli, holdings: tuple[Holding, ...]) -> list[str]:
    """One aligned line a holding, under the name of its agent; what has no live claim comes last."""
    rows = [_row(holding) for holding in holdings]
    styles = [["bold", "", "dim", HEALTH_COLOURS.get(holding.health, ""), "", "dim"] for holding in holdings]
    columns = terminal_columns(sys.stdout)
    shown = table(rows, styles=styles, shrink=(1, 2, 0), right=(4, 5), columns=columns, paint=cli.paint, indent="  ")
    found: list[str] = []
    group: str | None = ""
    for holding, line in zip(holdings, shown, strict=True):
        agent = holding.claim.agent if holding.claim else None
        if agent != group:
            group = agent
            found += [""] if found else []
            found.append(_heading(cli, holdings, agent))
        found.append(line)
    return found


def _heading(cli: Cli, holdings: tuple[Holding, ...], agent: str | None) -> str:
    if agent is None:
        return cli.paint("no live claim", "bold", "red") + cli.paint("  dibs sweep gives these back", "dim")
    count = sum(holding.claim is not None and holding.claim.agent == agent for holding in holdings)
    return cli.paint.agent(agent) + cli.paint(f"  {number_of(count, 'claim')}", "dim")


def _row(holding: Holding) -> list[str]:
    item, claim = holding.item, holding.claim
    left = f"{when.span(holding.remaining_seconds)} left" if claim else ""
    session = f"{claim.session}" if claim else ""
    health = holding.health if claim else "expired"
    return [item.id, item.title, session, health, when.span(holding.age_seconds), left]


def _watch(cli: Cli) -> None:
    """Show it again whenever something changed; on a terminal in place, and every second, since time passes too."""
    on_screen = sys.stdout.isatty() and not cli.json
    watch = cli.board.watch()
    try:
        if on_screen:
            _leave_on_termination()
            sys.stdout.write(ENTER)
        while True:
            if on_screen:
                _redraw(cli)
            else:
                _show(cli)
                sys.stdout.flush()
            while not watch.wait(REDRAW_SECONDS) and not on_screen:
                pass
    except KeyboardInterrupt:
        pass  # how one leaves it
    finally:
        watch.close()
        if on_screen:
            sys.stdout.write(LEAVE)


def _redraw(cli: Cli) -> None:
    holdings = cli.board.who()
    size = os.get_terminal_size(sys.stdout.fileno())
    import time

    claims = number_of(sum(holding.claim is not None for holding in holdings), "live claim")
    title = f"{cli.paint('dibs who', 'bold')}  {claims} · {clock(int(time.time() * 1000))}"
    body = lines(cli, holdings) if holdings else ["nobody is on anything"]
    room = size.lines - 3
    if len(body) > room:
        body = [*body[: room - 1], cli.paint(f"… {number_of(len(body) - room + 1, 'more line')}", "dim")]
    text = "\n".join(line + CLEAR_LINE for line in [title, "", *body])
    sys.stdout.write(HOME + text + CLEAR_BELOW)
    sys.stdout.flush()


def _leave_on_termination() -> None:
    """A polite kill leaves the screen as it was, like Ctrl-C does."""
    import signal

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
