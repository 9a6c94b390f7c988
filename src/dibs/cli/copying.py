"""`dibs copy`: a whole board to another place, from SQLite to PostgreSQL and back, checked record by record."""

from __future__ import annotations

import os

from dibs import location
from dibs.cli.archive import Progress
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import clean, number_of
from dibs.maintenance import copying

#: What people count; the rest belongs to these.
TOLD = ("item", "run", "event", "agent", "session", "claim", "ticket")


def copy_options(parser: Parser) -> None:
    parser.word("from", "the board as it is: a path, a URL, or its folder")
    parser.word("to", "where nothing is yet: a path or a URL")


def copy(cli: Cli) -> None:
    source, target = _named(cli)
    reading, checking = Progress("copied"), Progress("checked")
    try:
        counts = copying.copy(source, target, on_read=reading.one_more, on_checked=checking.one_more)
    finally:
        reading.erase()
        checking.erase()
    shown = {"from": location.printable(source), "to": location.printable(target)}
    if cli.json:
        return cli.answer({**shown, "records": reading.count, "copied": counts})
    told = ", ".join(number_of(counts[kind], kind) for kind in TOLD if kind in counts)
    cli.say(f"{cli.paint('copied', 'green')} {number_of(reading.count, 'record')} to {clean(shown['to'])}, and checked")
    cli.say(*([f"  {told}"] if told else []))
    return cli.say(
        cli.paint(f"  {clean(shown['from'])} is as it was: use only one of them from now on", "dim"),
        cli.paint("  point every agent to the copy with DIBS_STORE", "dim"),
    )


def _named(cli: Cli) -> tuple[str, str]:
    """The two boards; a folder stands for its own board, whose path is nothing one would type."""
    source, target = getattr(cli.args, "from"), cli.args.to
    if cli.args.store or not source or not target:
        raise UsageError("copy takes FROM and TO, a board each, and no --store", field="arguments")
    return location.find(source) if os.path.isdir(source) else source, target
