"""The reference pages, from the tables of the code.

A page in `docs/reference/` is written by hand and has markers, `<!-- generated: commands -->`. `expand` puts in their
place what the code says: so a new command, verb or error is on the site without a change of a document.
"""

from __future__ import annotations

import inspect
import re

from dibs.board import Board
from dibs.cli import words
from dibs.cli.commands import COMMANDS, EXAMPLES, GROUPS
from dibs.cli.parser import Parser, build
from dibs.errors import DibsError
from dibs.rules.event_kinds import EVENT_KINDS
from dibs.verbs import VERBS, Verb
from manual.tables import code, read, rows, table

MARKER = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)
PROTOCOL = "docs/protocol.md"
#: Where the OpenAPI document says which role an operation needs.
ROLE = "x-dibs-role"


def expand(text: str) -> str:
    """The text of a page with what its markers stand for."""
    return MARKER.sub(lambda marker: GENERATED[marker[1]](), text)


def parsers() -> dict[str, Parser]:
    return {name: build(name, command)[0] for name, command in COMMANDS.items()}


def common_options() -> list[tuple[str, str]]:
    """The options that every command has."""
    parser = Parser("", next(iter(COMMANDS.values())))
    parser.common_options()
    return _options(parser)


def own_options(parser: Parser) -> list[tuple[str, str]]:
    """The arguments and options of one command, without those that every command has."""
    arguments = [(argument.metavar or "", argument.help) for argument in parser.arguments]
    common = set(common_options())
    return arguments + [option for option in _options(parser) if option not in common]


def errors() -> list[type[DibsError]]:
    """Every class of errors with a code of its own, in the order of the module."""
    return [kind for kind in DibsError.__subclasses__() if kind.__module__ == "dibs.errors"]


def _options(parser: Parser) -> list[tuple[str, str]]:
    options = dict.fromkeys(parser.options.values())
    return [(", ".join(one.names) + (f" {one.metavar}" if one.metavar else ""), one.help) for one in options]


def _commands() -> str:
    built = parsers()
    parts = ["## Options of every command", table(("option", "meaning"), _cells(common_options()))]
    for group, title in GROUPS.items():
        parts.append(f"## {title}")
        for name, command in COMMANDS.items():
            if command.group == group:
                parts += _command(built[name])
    return "\n\n".join(parts)


def _command(parser: Parser) -> list[str]:
    summary = parser.command.summary
    parts = [f"### {parser.name}", summary[0].upper() + summary[1:] + ".", f"```text\n{parser.usage()[7:]}\n```"]
    options = own_options(parser)
    if options:
        parts.append(table(("argument or option", "meaning"), _cells(options)))
    return [*parts, "```text\n" + "\n".join(EXAMPLES[parser.name]) + "\n```"]


def command_aliases() -> dict[str, list[str]]:
    """Every command line that other words stand for, and these words."""
    found: dict[str, list[str]] = {}
    for word, line in words.ALIASES.items():
        found.setdefault(f"dibs {line}".rstrip(), []).append(word)
    for (noun, verb), option in words.EDITS.items():
        found.setdefault(f"dibs edit ID {option} NAME", []).append(f"{noun} {verb} ID NAME")
    return found


def option_aliases() -> dict[tuple[str, str], list[str]]:
    """Every option that other names stand for, with the commands that take it, and these names."""
    built = parsers()
    found: dict[tuple[str, str], list[str]] = {}
    for alias, name in words.OPTION_ALIASES.items():
        taking = [command for command, parser in built.items() if name in parser.options]
        found.setdefault((name, "every command" if taking == list(built) else ", ".join(taking)), []).append(alias)
    of_commands: dict[tuple[str, str], list[str]] = {}
    for (command, alias), name in words.COMMAND_OPTIONS.items():
        of_commands.setdefault((name, alias), []).append(command)
    for (name, alias), commands in of_commands.items():
        found.setdefault((name, ", ".join(commands)), []).append(alias)
    return found


def _aliases() -> str:
    by_status: dict[str, list[str]] = {}
    for word, status in words.STATUS_WORDS.items():
        by_status.setdefault(status, []).append(word)
    commands = [(code(line), _codes(aliases)) for line, aliases in command_aliases().items()]
    options = [(code(name), of, _codes(aliases)) for (name, of), aliases in option_aliases().items()]
    statuses = [(code(status), _codes(aliases)) for status, aliases in by_status.items()]
    parts = [
        table(("command", "words that run it"), commands),
        "A noun before a command is skipped, as in `dibs issue list`; alone it lists items, and before an id it shows"
        f" the item: {_codes(sorted((*words.NOUNS, 'get')))}.",
        table(("option", "commands", "names that stand for it"), options),
        table(("status", "words that `list --status` accepts for it"), statuses),
    ]
    return "\n\n".join(parts)


def _codes(names: list[str]) -> str:
    return ", ".join(code(name) for name in names)


def _cells(options: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(code(names), about.replace("|", "\\|").replace("<", "&lt;")) for names, about in options]


def operations() -> list[tuple[str, str, str, str, str]]:
    """Method, path, role, name and summary of every operation that a server describes."""
    from web.tools.api_types import document

    return [
        (method.upper(), path, operation.get(ROLE, ""), operation["operationId"], operation.get("summary", ""))
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]


def _http() -> str:
    verbs = {verb.name for verb in VERBS}
    protocol = read(PROTOCOL)
    body = []
    for method, path, role, name, summary in operations():
        named = f"[{name}](../protocol.md#{name})" if f"\n### {name}\n" in protocol else ""
        body.append(
            (code(method), code(path), role or "no key", named or (code(name) if name in verbs else ""), summary)
        )
    parts = [table(("method", "path", "role", "verb", "what it does"), body), "## Parameters and answers of verbs"]
    return "\n\n".join([*parts, table(("verb", "parameters", "answer"), [_signature(verb) for verb in VERBS])])


def _signature(verb: Verb) -> tuple[str, str, str]:
    parameters = inspect.signature(getattr(Board, verb.name)).parameters.values()
    names = [
        code(one.name if one.default is one.empty and one.kind is not one.VAR_KEYWORD else f"[{one.name}]")
        for one in parameters
        if one.name != "self"
    ]
    answer = f"a list of {verb.answer.__name__}" if verb.many else verb.answer.__name__
    return code(verb.name), ", ".join(names), answer


def _errors() -> str:
    told = {cells[0].strip("`"): cells for cells in rows(PROTOCOL, "code", "HTTP", "exit")}
    parts = []
    for kind in errors():
        _, _, _, when, facts = _for_reference(told[kind.code])
        lines = [
            f"- Class `{kind.__name__}`, HTTP status {kind.http_status}, exit code {kind.exit_code}",
            f"- When: {when}",
        ]
        lines += [f"- Facts: {facts}"] if facts else []
        parts += [f"## {kind.code}", kind.__doc__ or "", "\n".join(lines)]
    return "\n\n".join(parts)


def _events() -> str:
    told = {cells[0].strip("`"): cells for cells in rows(PROTOCOL, "kind", "written by")}
    body = [_for_reference(told[kind.name]) for kind in EVENT_KINDS]
    return table(("kind", "written by", "status after it", "session, agent", "data"), body)


def _for_reference(cells: list[str]) -> list[str]:
    """Cells of the protocol, with links that work from the folder `reference`."""
    linked = [re.sub(r"\]\(#", "](../protocol.md#", cell) for cell in cells]
    return [re.sub(r"\]\((operations|guides)/", r"](../\1/", cell) for cell in linked]


GENERATED = {"commands": _commands, "aliases": _aliases, "http": _http, "errors": _errors, "events": _events}
