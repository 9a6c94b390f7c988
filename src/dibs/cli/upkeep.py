"""Setting a board up and looking after it: init, migrate, sweep, doctor."""

from __future__ import annotations

import os

from dibs import config, location
from dibs.board import default_url, make
from dibs.board import migrate as migrate_board
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Sweep

FINDINGS = 1


def init_options(parser: Parser) -> None:
    parser.word("path", "the repository or folder (this one)", optional=True)


def init(cli: Cli) -> None:
    """Make the board, or say that it is there: in a repository one for all of its worktrees."""
    asked = cli.args
    named = asked.store or (None if asked.path else os.environ.get(config.ENV_STORE))
    url = named or location.for_init(asked.path or ".")
    made = make(url, folder=asked.path or ".")
    place = location.printable(url)
    if cli.json:
        return cli.answer({"store": place, "created": made})
    if not made:
        return cli.say(f"the board is there already: {clean(place)}")
    cli.say(f"{cli.paint('made a board', 'green')}: {clean(place)}")
    return cli.say(cli.paint('now: dibs add "Fix login" --type bug', "dim"))


def migrate_options(parser: Parser) -> None:
    """It takes what every command takes."""


def migrate(cli: Cli) -> None:
    """Bring the board's schema up to date. A file has done so when it was last opened; a database waits to be told."""
    url = cli.args.store or default_url(".")
    before, after = migrate_board(url)
    place = location.printable(url)
    if cli.json:
        return cli.answer({"store": place, "before": before, "after": after})
    if before == after:
        return cli.say(f"nothing to migrate: {clean(place)} has schema {after}")
    return cli.say(f"{cli.paint('migrated', 'green')} {clean(place)} from schema {before} to {after}")


def sweep_options(parser: Parser) -> None:
    parser.number("--limit", help="move at most so many of each (500)")


def sweep(cli: Cli) -> None:
    swept = cli.board.sweep(limit=cli.args.limit)
    return cli.answer(swept) if cli.json else cli.say(*_told(cli, swept))


def doctor_options(parser: Parser) -> None:
    """It takes what every command takes."""


def doctor(cli: Cli) -> int:
    """Exit 0 if everything is sound, else 1. What is only overdue is told, and is no fault."""
    from dibs.maintenance.doctor import examine

    wrong = 0
    findings = []
    for finding in examine(cli.board):
        wrong += not finding.late
        if cli.json:
            findings.append(finding)
        else:
            mark = cli.paint("·", "yellow") if finding.late else cli.paint("✗", "red")
            cli.say(f"{mark} {clean(finding.what)}", cli.paint(f"  what to do: {finding.advice}", "dim"))
    if cli.json:
        cli.answer({"sound": not wrong, "findings": findings})
    elif not wrong:
        cli.say(f"{cli.paint('✓', 'green')} the board is sound")
    else:
        cli.say(number_of(wrong, "finding"))
    return FINDINGS if wrong else 0


def _told(cli: Cli, swept: Sweep) -> list[str]:
    found = (
        ("expired", "yellow", swept.expired, ""),
        ("owner died", "red", swept.owner_died, ""),
        ("failed", "red", swept.failed, " (too many strikes; dibs retry ITEM)"),
        ("due", "green", swept.due, ""),
        ("offer lapsed", "yellow", swept.offers, ""),
    )
    lines = [
        f"{cli.paint(what, colour)}{' ' * (14 - len(what))}{', '.join(items)}{more}"
        for what, colour, items, more in found
        if items
    ]
    lines += ["there is more; sweep again"] if swept.more else []
    return lines or ["nothing to sweep"]
