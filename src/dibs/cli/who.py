"""`dibs who`: by agent, every live claim with its age, its health, the time left and how many wait for it; then soft
claims. With `--resources`, what is in use, by whom and for what."""

from __future__ import annotations

import os
import sys
from collections import Counter

from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import agent_colour, clock, held_until, number_of, table, terminal_columns
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Holding

HEALTH_COLOURS = {
    "healthy": "green",
    "stale": "yellow",
    "warning": "yellow",
    "orphaned": "magenta",
    "expiring": "red",
    "unclaimed": "red",
    "soft": "blue",
}
#: What stands where a time would, of a claim that no clock ends.
BRIEFLY = "while alive"
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
    parser.option("--resources", help="what is in use, by whom and for which item")
    parser.option("--watch", help="keep showing it, until Ctrl-C")


def who(cli: Cli) -> None:
    if cli.args.watch:
        return _watch(cli)
    return _show(cli, cli.board.who())


def _show(cli: Cli, holdings: tuple[Holding, ...]) -> None:
    if cli.json:
        cli.answer({"resources": _resources(holdings)} if cli.args.resources else {"holdings": holdings})
    else:
        cli.say(*_lines(cli, holdings))


def _lines(cli: Cli, holdings: tuple[Holding, ...]) -> list[str]:
    if cli.args.resources:
        return _resource_lines(cli, holdings) or ["nothing is in use"]
    return _holding_lines(cli, holdings) or ["nobody is on anything"]


def _holding_lines(cli: Cli, holdings: tuple[Holding, ...]) -> list[str]:
    """One aligned line a holding, under the name of its agent."""
    rows = [_row(holding) for holding in holdings]
    styles = [["bold", "", "dim", HEALTH_COLOURS.get(holding.health, ""), "", "dim", "cyan"] for holding in holdings]
    columns = terminal_columns(sys.stdout)
    shown = table(rows, styles=styles, shrink=(1, 2, 0), right=(4, 5), columns=columns, paint=cli.paint, indent="  ")
    groups = Counter(map(_group, holdings))
    found: list[str] = []
    group = None
    for holding, line in zip(holdings, shown, strict=True):
        if _group(holding) != group:
            group = _group(holding)
            found += [""] if found else []
            found.append(_heading(cli, *group, groups[group]))
        found.append(line)
    return found


def _group(holding: Holding) -> tuple[str, str]:
    """What a line stands under: whose it is, and what kind of hold it is."""
    if holding.soft is not None:
        return holding.soft.agent, "soft claim"
    return ("", "") if holding.claim is None else (holding.claim.agent, "claim")


def _heading(cli: Cli, agent: str, kind: str, count: int) -> str:
    if not agent:
        return cli.paint("in progress without a claim", "bold", "red") + cli.paint("  see dibs doctor", "dim")
    return cli.paint.agent(agent) + cli.paint(f"  {number_of(count, kind)}", "dim")


def _row(holding: Holding) -> list[str]:
    item, hold = holding.item, holding.claim or holding.soft
    left = f"{times.span(holding.remaining_seconds)} left" if hold else ""
    if holding.remaining_seconds > times.ENDLESS_SECONDS:
        left = BRIEFLY
    waiting = f"{holding.waiters} waiting" if holding.waiters else ""
    session = hold.session if hold else ""
    return [item.id, item.title, session, holding.health, times.span(holding.age_seconds), left, waiting]


def _resources(holdings: tuple[Holding, ...]) -> list[dict[str, Any]]:
    """Everything that live claims keep to themselves, by project and name."""
    found = [
        {
            "resource": resource,
            "project": holding.item.project,
            "item": holding.item.id,
            "agent": holding.claim.agent,
            "session": holding.claim.session,
            "expires_at": holding.claim.expires_at,
        }
        for holding in holdings
        if holding.claim is not None
        for resource in holding.item.resources
    ]
    return sorted(found, key=lambda one: (one["project"], one["resource"], one["item"]))


def _resource_lines(cli: Cli, holdings: tuple[Holding, ...]) -> list[str]:
    used = _resources(holdings)
    projects = len({one["project"] for one in used}) > 1
    names = ["resource", *(["project"] if projects else []), "item", "agent", "session"]
    rows = [
        [*(one[name] for name in names), held_until(one["expires_at"], BRIEFLY).removeprefix("until ")] for one in used
    ]
    styles = [["bold", *([""] if projects else []), "", agent_colour(one["agent"]), "dim"] for one in used]
    columns = terminal_columns(sys.stdout)
    shrink = (0, names.index("item"), names.index("session"))
    return table(rows, header=[*names, "until"], styles=styles, shrink=shrink, columns=columns, paint=cli.paint)


def _watch(cli: Cli) -> None:
    """Show it again whenever something changed; on a terminal in place, and every second, since time passes too."""
    on_screen = sys.stdout.isatty() and not cli.json
    watch = cli.board.watch(sweeps=True)
    try:
        if on_screen:
            _leave_on_termination()
            sys.stdout.write(ENTER)
        while True:
            if on_screen:
                _redraw(cli)
            else:
                _show(cli, cli.board.who())
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
    body = _lines(cli, holdings)
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
