"""Boards of markdown files: making one."""

from __future__ import annotations

import os

from dibs import location
from dibs.board import make
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean


def vault_init_options(parser: Parser) -> None:
    parser.word("path", "the folder of the vault (this one)", optional=True)


def vault_init(cli: Cli) -> None:
    """Make a vault of a folder: its folders, and the index beside them. What is in it already stays as it is."""
    folder = cli.args.path or "."
    url = location.VAULT + os.path.abspath(folder)
    made = make(url, folder=folder if os.path.isdir(folder) else ".")
    if cli.json:
        return cli.answer({"store": url, "created": made})
    place = clean(os.path.abspath(folder))
    if not made:
        return cli.say(f"the vault is there already: {place}")
    cli.say(f"{cli.paint('made a vault', 'green')}: {place}")
    return cli.say(cli.paint("now: put a task into Needs_Action, as a markdown file; then, in there: dibs next", "dim"))
