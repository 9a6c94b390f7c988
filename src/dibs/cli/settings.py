"""`dibs config`: every setting in force, and where it comes from."""

from __future__ import annotations

import os
import sys

from dibs import config as configuration
from dibs import location
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean, table, terminal_columns
from dibs.errors import Invalid, NotTrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT, ENVIRONMENT = "default", "environment"
#: What no screen should show.
SECRET = (configuration.ENV_KEY,)


def config_options(parser: Parser) -> None:
    """It takes what every command takes."""


def config(cli: Cli) -> None:
    found = [_store(cli), *_environment(), *_of_file()]
    if cli.json:
        return cli.answer({"settings": found})
    rows = [[one["name"], _shown(one["value"]), clean(one["source"])] for one in found]
    styles = [["", "", "dim"] if one["source"] == DEFAULT else ["bold"] for one in found]
    columns = terminal_columns(sys.stdout)
    header = ("setting", "value", "from")
    return cli.say(*table(rows, header=header, styles=styles, shrink=(2, 1), columns=columns, paint=cli.paint))


def _setting(name: str, value: Any, source: str) -> dict[str, Any]:
    return {"name": name, "value": value, "source": source}


def _store(cli: Cli) -> dict[str, Any]:
    if cli.args.store:
        return _setting("store", location.printable(cli.args.store), "option --store")
    named = os.environ.get(configuration.ENV_STORE)
    if named:
        return _setting("store", location.printable(named), f"{ENVIRONMENT} {configuration.ENV_STORE}")
    try:
        return _setting("store", location.find("."), "the nearest board")
    except Invalid:
        return _setting("store", None, "no board here or above")
    except NotTrusted as error:
        return _setting("store", None, error.message)


def _environment() -> list[dict[str, Any]]:
    names = (
        *(configuration.ENV_SESSION, configuration.ENV_AGENT, configuration.ENV_TOKEN),
        *(configuration.ENV_KEY, configuration.ENV_INSECURE_HTTP),
    )
    return [
        _setting(name, location.HIDDEN if name in SECRET else os.environ[name], ENVIRONMENT)
        for name in names
        if os.environ.get(name)
    ]


def _of_file() -> list[dict[str, Any]]:
    """The tables of `dibs.toml`, each setting with its default where the file is silent."""
    path = configuration.find_file(".")
    given: dict[str, dict[str, Any]] = {} if path is None else configuration.read_tables(path)
    board = configuration.DEFAULTS if path is None else configuration.from_table(given["board"], path)
    server = configuration.load_server(".")
    found = []
    for name, settings in (("board", board), ("server", server)):
        said = given.get(name, {})
        found += [
            _setting(f"{name}.{field}", value, path if field in said and path else DEFAULT)
            for field, value in settings.as_dict().items()
        ]
    if path is not None:
        found += [_setting(f"agents.{name}", dict(fields), path) for name, fields in given["agents"].items()]
    return found


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return clean(", ".join(map(str, value)))
    return clean(f"{value:g}" if isinstance(value, float) else str(value))
