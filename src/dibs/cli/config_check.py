"""`dibs config --check`: every mistake in the `dibs.toml` that counts, each with its line and what would be right."""

from __future__ import annotations

from dibs import config, settings_file
from dibs.cli.context import Cli
from dibs.cli.render import clean, number_of
from dibs.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: The exit code if something is wrong.
MISTAKES = 1


def show(cli: Cli) -> int:
    path = settings_file.look(".", cli.args.store, tell=cli.notice_once).settings_file
    if path is None:
        told = f"no {config.FILE_NAME} applies to this board: every setting has its default"
        cli.reply({"file": None, "mistakes": []}, told)
        return 0
    found = list(_mistakes(path))
    if cli.json:
        cli.print_json({"file": path, "mistakes": [{"message": one.message, **one.facts} for one in found]})
    else:
        cli.print(*(f"{cli.paint('✗', 'red')} {clean(one.message)}" for one in found))
        right = f"{cli.paint('✓', 'green')} {clean(path)} is right"
        cli.print(number_of(len(found), "mistake") if found else right)
    return MISTAKES if found else 0


def _mistakes(path: str) -> Iterator[Invalid]:
    """The mistakes. Of a table that dibs does not know, only that; of the others, all that can be seen at once."""
    try:
        tables = config.read_tables(path)
    except Invalid as error:
        yield error
        return
    for read, name in ((config.from_table, "board"), (config.server_from_table, "server")):
        yield from _of_table(read, tables[name], path)
    yield from _of_agents(tables["agents"], path)
    from dibs.github import policy_file

    yield from _raised(policy_file.read, path)


def _of_table(read: Callable[..., object], table: dict[str, Any], path: str) -> Iterator[Invalid]:
    alone = [error for name, value in table.items() for error in _raised(read, {name: value}, path)]
    # A setting may be right only together with others, so a mistake that goes away with them is none.
    whole = _raised(read, table, path)
    yield from (alone if len(alone) > 1 and whole else whole)


def _of_agents(agents: dict[str, Any], path: str) -> Iterator[Invalid]:
    from dibs.board import agent_settings

    for name, fields in agents.items():
        unknown = _raised(config.checked_agents, {name: fields}, path)
        yield from unknown
        for error in () if unknown else _raised(agent_settings.checked, name, fields):
            field = str(error.facts.get("field"))
            yield config.mistake(path, ("agents", name, field), f"[agents.{name}]: {error.message}", field)


def _raised(call: Callable[..., object], *arguments: object) -> list[Invalid]:
    try:
        call(*arguments)
    except Invalid as error:
        return [error]
    return []
