"""`dibs trust`: boards and settings of others that this user believes, for files that a search would refuse."""

from __future__ import annotations

import os

from dibs import config
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean
from dibs.errors import Invalid
from dibs.files import trust as trusted


def trust_options(parser: Parser) -> None:
    parser.word("path", "a board's folder, a dibs.toml, or any folder (.)", optional=True)
    parser.option("--list", help="show what is trusted")
    parser.option("--remove", help="trust it no more")


def trust(cli: Cli) -> None:
    asked = cli.args
    if asked.list:
        if asked.path is not None or asked.remove:
            raise Invalid("--list stands alone", field="list")
        return _list(cli)
    change = trusted.remove if asked.remove else trusted.add
    path = change(_meant(asked.path or "."))
    if cli.json:
        return cli.answer({"path": path, "trusted": not asked.remove, "file": trusted.file_path()})
    what = cli.paint("trusted no more", "yellow") if asked.remove else cli.paint("trusted", "green")
    return cli.say(f"{what}: {clean(path)}", cli.paint(f"  listed in {clean(trusted.file_path())}", "dim"))


def _list(cli: Cli) -> None:
    paths = trusted.listed()
    if cli.json:
        return cli.answer({"trusted": paths, "file": trusted.file_path()})
    if not paths:
        return cli.remark(f"{trusted.file_path()} lists nothing")
    return cli.say(*map(clean, paths))


def _meant(path: str) -> str:
    """A board is trusted with its folder: what lies beside it is part of it."""
    is_board = os.path.isfile(path) and os.path.basename(path) != config.FILE_NAME
    return os.path.dirname(os.path.abspath(path)) if is_board else path
