"""Set up and check a board: init, migrate, sweep, doctor, config, trust."""

from __future__ import annotations

import os

from dibs import config as configuration
from dibs import location, settings_file
from dibs.board import exists_at, make
from dibs.board import migrate as migrate_board
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean, number_of
from dibs.errors import Invalid, NotTrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Sweep

#: The exit code of `doctor` when something is wrong.
FINDINGS = 1
DEFAULT, ENVIRONMENT = "default", "environment"
#: The variables that `config` shows.
VARIABLES = (
    configuration.ENV_SESSION,
    configuration.ENV_AGENT,
    configuration.ENV_TOKEN,
    configuration.ENV_KEY,
    configuration.ENV_INSECURE_HTTP,
)


def init_options(parser: Parser) -> None:
    parser.argument("path", "the repository or folder (default: this one)", optional=True)


def init(cli: Cli) -> None:
    """Create the board unless it exists; a repository has one board for all of its worktrees."""
    args = cli.args
    named = args.store or (None if args.path else os.environ.get(configuration.ENV_STORE))
    url = named or location.for_init(args.path or ".")
    created = make(url, folder=args.path or ".")
    cli.accept_vault(url)
    place = location.printable(url)
    if cli.json:
        return cli.print_json({"store": place, "created": created})
    if not created:
        return cli.print(f"the board exists already: {clean(place)}")
    cli.print(f"{cli.paint('created a board', 'green')}: {clean(place)}")
    return cli.print(cli.paint('next: dibs add "Fix login" --type bug', "dim"))


def migrate(cli: Cli) -> None:
    """Upgrade the schema. A SQLite file is upgraded whenever it is opened; PostgreSQL only by this command."""
    url = cli.place.url
    before, after = migrate_board(url)
    place = location.printable(url)
    if before == after:
        line = f"nothing to migrate: {clean(place)} has schema {after}"
    else:
        line = f"{cli.paint('migrated', 'green')} {clean(place)} from schema {before} to {after}"
    cli.reply({"store": place, "before": before, "after": after}, line)


def sweep_options(parser: Parser) -> None:
    parser.number("--limit", help="process at most N of each kind (default: 500)")


def sweep(cli: Cli) -> None:
    swept = cli.board.sweep(limit=cli.args.limit)
    return cli.print_json(swept) if cli.json else cli.print(*_sweep_lines(cli, swept))


def _sweep_lines(cli: Cli, swept: Sweep) -> list[str]:
    found = (
        ("expired", "yellow", swept.expired, ""),
        ("owner died", "red", swept.owner_died, ""),
        ("failed", "red", swept.failed, " (too many strikes; to try again: dibs retry ITEM)"),
        ("due", "green", swept.due, ""),
        ("offer lapsed", "yellow", swept.offers, ""),
    )
    lines = [
        f"{cli.paint(what, colour)}{' ' * (14 - len(what))}{', '.join(items)}{more}"
        for what, colour, items, more in found
        if items
    ]
    lines += ["more is due; run dibs sweep again"] if swept.more else []
    return lines or ["nothing to sweep"]


def doctor(cli: Cli) -> int:
    """Exit 1 if anything is wrong. What is merely overdue is shown and is not an error."""
    from dibs.cli.progress import Progress, records_of
    from dibs.maintenance.doctor import examine

    wrong = 0
    findings = []
    with Progress("checked", records_of(cli.board), is_estimate=True) as progress:
        for finding in examine(cli.board, on_record=progress.advance):
            wrong += not finding.late
            if cli.json:
                findings.append(finding)
                continue
            mark = cli.paint("·", "yellow") if finding.late else cli.paint("✗", "red")
            progress.clear()
            cli.print(f"{mark} {clean(finding.what)}", cli.paint(f"  what to do: {finding.advice}", "dim"))
    sound = f"{cli.paint('✓', 'green')} the board is sound"
    cli.reply({"sound": not wrong, "findings": findings}, number_of(wrong, "finding") if wrong else sound)
    return FINDINGS if wrong else 0


def config_options(parser: Parser) -> None:
    parser.option("--check", help="check dibs.toml, and exit 1 if anything in it is wrong")


def config(cli: Cli) -> int:
    if cli.args.check:
        from dibs.cli import config_check

        return config_check.show(cli)
    _show_settings(cli)
    return 0


def _show_settings(cli: Cli) -> None:
    settings = [_store(cli), *_environment(), *_file_settings(cli)]
    if cli.json:
        return cli.print_json({"settings": settings})
    rows = [[one["name"], _value_text(one["value"]), clean(one["source"])] for one in settings]
    styles = [["", "", "dim"] if one["source"] == DEFAULT else ["bold"] for one in settings]
    return cli.print(*cli.table(rows, header=("setting", "value", "source"), styles=styles, shrink=(2, 1)))


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
    return [
        _setting(name, location.MASK if name == configuration.ENV_KEY else os.environ[name], ENVIRONMENT)
        for name in VARIABLES
        if os.environ.get(name)
    ]


def _file_settings(cli: Cli) -> list[dict[str, Any]]:
    """The settings of `dibs.toml`, with the default of each that the file does not set."""
    path = settings_file.look(".", cli.args.store, tell=cli.notice_once).settings_file
    given: dict[str, dict[str, Any]] = {} if path is None else configuration.read_tables(path)
    board = configuration.DEFAULTS if path is None else configuration.from_table(given["board"], path)
    found = []
    for name, settings in (("board", board), ("server", configuration.load_server(path))):
        in_file = given.get(name, {})
        found += [
            _setting(f"{name}.{field}", value, path if field in in_file and path else DEFAULT)
            for field, value in settings.as_dict().items()
        ]
    if path is not None:
        found += [_setting(f"agents.{name}", dict(fields), path) for name, fields in given["agents"].items()]
    return found


def _value_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return clean(", ".join(map(str, value)))
    return clean(f"{value:g}" if isinstance(value, float) else str(value))


def trust_options(parser: Parser) -> None:
    parser.argument("path", "a board's folder, a dibs.toml, or any folder (.)", optional=True)
    parser.option("--list", help="list what is trusted")
    parser.option("--remove", help="stop trusting the path")


def trust(cli: Cli) -> None:
    """Trust files of other users or of commits, which a search for the board would otherwise refuse."""
    from dibs.system import trust as trusted

    args, file = cli.args, trusted.file_path()
    if args.list:
        if args.path is not None or args.remove:
            raise Invalid("--list takes no path and no --remove", field="list")
        paths = trusted.listed()
        if not paths and not cli.json:
            return cli.notice(f"{file} lists nothing")
        return cli.reply({"trusted": paths, "file": file}, *map(clean, paths))
    path = args.path or "."
    if args.remove:
        # Also what is no longer there: a vault that was moved or deleted.
        folder = path.removeprefix(location.VAULT)
        path = trusted.remove(_trust_path(folder), location.acceptance(folder))
    elif vault := _vault_entry(path):
        trusted.add_entry(path := vault)
    else:
        path = trusted.add(_trust_path(path))
    what = cli.paint("no longer trusted", "yellow") if args.remove else cli.paint("trusted", "green")
    answer = {"path": path, "trusted": not args.remove, "file": file}
    return cli.reply(answer, f"{what}: {clean(path)}", cli.paint(f"  the list is {clean(file)}", "dim"))


def _vault_entry(path: str) -> str | None:
    """The entry that accepts the vault at this path; None if there is none. It trusts nothing else in the folder."""
    folder = path.removeprefix(location.VAULT)
    is_vault = os.path.isdir(folder) and exists_at(location.VAULT + folder)
    return location.acceptance(folder) if is_vault else None


def _trust_path(path: str) -> str:
    """The path to trust: for a board, its folder, because the files beside it are part of it."""
    is_board = os.path.isfile(path) and os.path.basename(path) != configuration.FILE_NAME
    return os.path.dirname(os.path.abspath(path)) if is_board else path
