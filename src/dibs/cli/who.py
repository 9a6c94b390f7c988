"""`dibs who`: live claims by agent, with age, health, time left and waiters; then soft claims. With `--resources`, the
resources in use, and by which claim."""

from __future__ import annotations

import os
import sys
from collections import Counter

from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import agent_colour, clock, held_until, now_ms, number_of
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
#: Shown instead of a time for a claim that does not expire by the clock.
ENDLESS = "while alive"
REDRAW_SECONDS = 1.0
#: Terminal control sequences; the alternate screen preserves what the terminal showed before.
ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def who_options(parser: Parser) -> None:
    parser.option("--resources", help="show the resources in use")
    parser.option("--watch", help="keep the display up to date, until Ctrl-C")


def who(cli: Cli) -> None:
    if cli.args.watch:
        return _watch(cli)
    return _show(cli, cli.board.who())


def _show(cli: Cli, holdings: tuple[Holding, ...]) -> None:
    if cli.json:
        cli.print_json({"resources": _resources(holdings)} if cli.args.resources else {"holdings": holdings})
    else:
        cli.print(*_lines(cli, holdings))


def _lines(cli: Cli, holdings: tuple[Holding, ...]) -> list[str]:
    if cli.args.resources:
        return _resource_lines(cli, holdings) or ["no resource is in use"]
    return _holding_lines(cli, holdings) or ["no live claims"]


def _holding_lines(cli: Cli, holdings: tuple[Holding, ...]) -> list[str]:
    """One aligned line for each holding, below a heading for its agent."""
    rows = [_row(holding) for holding in holdings]
    styles = [["bold", "", "dim", HEALTH_COLOURS.get(holding.health, ""), "", "dim", "cyan"] for holding in holdings]
    table = cli.table(rows, styles=styles, shrink=(1, 2), right=(4, 5), keep=(0,), indent="  ")
    sizes = Counter(map(_group, holdings))
    lines: list[str] = []
    group = None
    for holding, line in zip(holdings, table, strict=True):
        if _group(holding) != group:
            group = _group(holding)
            lines += [""] if lines else []
            lines.append(_heading(cli, *group, sizes[group]))
        lines.append(line)
    return lines


def _group(holding: Holding) -> tuple[str, str]:
    """The agent and the kind of the claim."""
    if holding.soft is not None:
        return holding.soft.agent, "soft claim"
    return ("", "") if holding.claim is None else (holding.claim.agent, "claim")


def _heading(cli: Cli, agent: str, kind: str, count: int) -> str:
    if not agent:
        return cli.paint("in progress without a claim", "bold", "red") + cli.paint("  see dibs doctor", "dim")
    return cli.paint.agent(agent) + cli.paint(f"  {number_of(count, kind)}", "dim")


def _row(holding: Holding) -> list[str]:
    item, claim = holding.item, holding.claim or holding.soft
    left = f"{times.span(holding.remaining_seconds)} left" if claim else ""
    if holding.remaining_seconds > times.ENDLESS_SECONDS:
        left = ENDLESS
    waiting = f"{holding.waiters} waiting" if holding.waiters else ""
    session = claim.session if claim else ""
    if holding.parent is not None:
        session += f" (child of {holding.parent})"
    return [item.id, item.title, session, holding.health, times.span(holding.age_seconds), left, waiting]


def _resources(holdings: tuple[Holding, ...]) -> list[dict[str, Any]]:
    """Every resource that a live claim holds, by project and name."""
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
        [*(one[name] for name in names), held_until(one["expires_at"], ENDLESS).removeprefix("until ")] for one in used
    ]
    styles = [["bold", *([""] if projects else []), "", agent_colour(one["agent"]), "dim"] for one in used]
    shrink, keep = (0, names.index("session")), (names.index("item"),)
    return cli.table(rows, header=[*names, "until"], styles=styles, shrink=shrink, keep=keep)


def _watch(cli: Cli) -> None:
    """Show the claims again after each change; on a terminal also every second, because ages change too."""
    on_screen = sys.stdout.isatty() and not cli.json
    watch = cli.board.watch(sweeps=True)
    try:
        if on_screen:
            from dibs.cli.wait import exit_on_termination

            exit_on_termination()
            sys.stdout.write(ENTER_SCREEN)
        while True:
            if on_screen:
                _redraw(cli)
            else:
                _show(cli, cli.board.who())
                sys.stdout.flush()
            while not watch.wait(REDRAW_SECONDS) and not on_screen:
                pass
    except KeyboardInterrupt:
        pass
    finally:
        watch.close()
        if on_screen:
            sys.stdout.write(LEAVE_SCREEN)


def _redraw(cli: Cli) -> None:
    holdings = cli.board.who()
    size = os.get_terminal_size(sys.stdout.fileno())
    claims = number_of(sum(holding.claim is not None for holding in holdings), "live claim")
    title = f"{cli.paint('dibs who', 'bold')}  {claims} · {clock(now_ms())}"
    body = _lines(cli, holdings)
    room = size.lines - 3
    if len(body) > room:
        body = [*body[: room - 1], cli.paint(f"… {number_of(len(body) - room + 1, 'more line')}", "dim")]
    text = "\n".join(line + CLEAR_LINE for line in [title, "", *body])
    sys.stdout.write(HOME + text + CLEAR_BELOW)
    sys.stdout.flush()
