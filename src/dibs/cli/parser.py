"""The line of one command: what it may hold, what it held, and its help.

A command declares its words and options on a `Parser`; `read` turns a line into `Args`. Options stand anywhere, as
`--ttl 30m` or `--ttl=30m`; `--` ends them. A wrong line is a `UsageError`, told like every other refusal. It does what
argparse would, because argparse and what it imports take as long to start as a whole claim.
"""

from __future__ import annotations

import sys

from dibs.cli.commands import Command
from dibs.errors import Invalid
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HELP_COLUMN = 24
#: Commands that Python has another use for, and what their functions are called.
NOT_A_NAME = {"import": "import_"}


class UsageError(Invalid):
    """The line as typed makes no command; exit 2."""

    exit_code = 2


class Args:
    """What a line held, as attributes: `--request-id` is `request_id`."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Option:
    """Something a line may hold. `metavar` is None for a switch; `repeated` gathers a list."""

    def __init__(
        self,
        names: tuple[str, ...],
        metavar: str | None,
        help: str,
        *,
        read: Callable[[str], Any] = str,
        default: Any = None,
        repeated: bool = False,
        required: bool = False,
    ) -> None:
        self.names, self.metavar, self.help = names, metavar, help
        self.read, self.default, self.repeated, self.required = read, default, repeated, required
        self.attribute = names[-1].lstrip("-").replace("-", "_")


class Parser:
    """The grammar of the command `name`."""

    def __init__(self, name: str, command: Command) -> None:
        self.name = name
        self.command = command
        self.words: list[Option] = []
        self.options: dict[str, Option] = {}
        self.takes_command = False

    # What commands declare

    def word(self, name: str, help: str, *, optional: bool = False) -> None:
        """A word of the line, by its place."""
        self.words.append(Option((name,), name.upper(), help, required=not optional))

    def option(self, *names: str, metavar: str | None = None, help: str, **settings: Any) -> None:
        """An option with a value, or without a `metavar` a switch; its last name names the attribute."""
        if metavar is None:
            settings["default"] = False
        option = Option(names, metavar, help, **settings)
        self.options.update(dict.fromkeys(names, option))

    def number(self, *names: str, help: str, metavar: str = "N", default: int | None = None) -> None:
        self.option(*names, metavar=metavar, help=help, read=_whole_number, default=default)

    def rate(self, name: str, *, help: str) -> None:
        self.option(name, metavar="R", help=help, read=_number)

    def duration(self, name: str, field: str, help: str, *, required: bool = False) -> None:
        def read(text: str) -> float:
            return times.parse_duration(text, field)

        self.option(name, metavar="TIME", help=help, read=read, required=required)

    def command_line(self) -> None:
        """All that follows `--` is the line of another command."""
        self.takes_command = True

    # What several commands take

    def item(self, *, optional: bool = False) -> None:
        self.word("item", "the item's id", optional=optional)

    def identity(self) -> None:
        self.option("--session", metavar="ID", help="act as it (else DIBS_SESSION, agent's or terminal's)")
        self.option("--agent", metavar="NAME", help="whose session it is (else DIBS_AGENT)")

    def actor(self) -> None:
        self.option("--agent", "--actor", metavar="NAME", help="who does this (else DIBS_AGENT, session's agent, you)")

    def token(self) -> None:
        self.number("--token", help="the claim's (else DIBS_CLAIM_TOKEN, else the live one)")

    def ttl(self) -> None:
        self.duration("--ttl", "ttl_seconds", "how long it lasts without a heartbeat: 90s, 30m, 2h")

    def reason(self, *, required: bool = False) -> None:
        self.option("--reason", metavar="TEXT", help="why, for the history", required=required)

    def links_and_cost(self) -> None:
        self.option("--link", metavar="NAME=URL", help="what came of it; may be repeated", repeated=True)
        self.option("--cost", metavar="JSON", help="what it cost, as a JSON object")

    def request_id(self) -> None:
        self.option("--request-id", metavar="ID", help="asked again under it, nothing is done again")

    def yes(self) -> None:
        self.option("--yes", help="do not ask")

    def limit(self, default: int) -> None:
        self.number("--limit", help=f"at most so many ({default})", default=default)

    def everywhere(self) -> None:
        """What every command takes; declared last so that help shows it last."""
        self.option("--store", metavar="URL", help="the board (else DIBS_STORE, else this folder's)")
        self.option("--json", help="answer as JSON, refusals too")
        self.option("--no-color", help="plain text on a terminal too")
        self.option("-h", "--help", help="show this")

    # What main does with it

    def read(self, line: list[str]) -> Args:
        args = Args()
        declared = [*self.words, *self.options.values()]
        given = args.__dict__
        given.update({o.attribute: [] if o.repeated else o.default for o in declared})
        if self.takes_command:
            line, given["command"] = _before_and_after_dashes(line)
        words: list[str] = []
        at = 0
        while at < len(line):
            word = line[at]
            at += 1
            if word == "--":
                words += line[at:]
                break
            if word[:1] != "-" or word == "-":
                words.append(word)
                continue
            option, value = self._option(word)
            if option.metavar is None:
                given[option.attribute] = True
                continue
            if value is None:
                if at == len(line):
                    raise self.error(f"{word} needs a value: {word} {option.metavar}")
                value = line[at]
                at += 1
            read = self._value(option, word, value)
            given[option.attribute] = [*given[option.attribute], read] if option.repeated else read
        for option, word in zip(self.words, words, strict=False):
            given[option.attribute] = word
        if not args.help:
            self._require(args, words)
        return args

    def error(self, message: str) -> UsageError:
        return UsageError(message, field="arguments", usage=self.usage())

    def usage(self) -> str:
        words = [word.metavar if word.required else f"[{word.metavar}]" for word in self.words]
        needed = [f"{o.names[-1]} {o.metavar}" for o in self.options.values() if o.required]
        command = ["-- COMMAND ..."] if self.takes_command else []
        return " ".join(["usage: dibs", self.name, *(word or "" for word in words), *needed, "[options]", *command])

    def help(self) -> str:
        summary = self.command.summary
        lines = [self.usage(), "", summary[0].upper() + summary[1:] + ".", ""]
        shown = [(word.metavar or "", word.help) for word in self.words]
        for option in dict.fromkeys(self.options.values()):
            names = ", ".join(option.names) + (f" {option.metavar}" if option.metavar else "")
            shown.append((names, option.help))
        lines += [f"  {names:<{HELP_COLUMN}}{about}" for names, about in shown]
        lines += ["", "for example:", *(f"  {line}" for line in self.command.examples)]
        return "\n".join(lines)

    def _option(self, word: str) -> tuple[Option, str | None]:
        """The option a word names, and the value that is part of the word: `--ttl=30m`, `-n3`."""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
        else:
            name, value = word[:2], word[2:]
            equals = value
        option = self.options.get(name)
        if option is None:
            raise self.error(f"dibs {self.name} has no option {name}{_nearest(name, self.options)}")
        if equals and option.metavar is None:
            raise self.error(f"{name} takes no value")
        return option, value if equals else None

    def _value(self, option: Option, word: str, value: str) -> Any:
        try:
            return option.read(value)
        except ValueError as error:
            raise self.error(f"{word.partition('=')[0]} {value!r}: {error}") from error

    def _require(self, args: Args, words: list[str]) -> None:
        missing = [o.metavar or "" for o in self.words if o.required and getattr(args, o.attribute) is None]
        missing += [o.names[-1] for o in self.options.values() if o.required and getattr(args, o.attribute) is None]
        if self.takes_command and not args.command:
            missing.append("-- COMMAND")
        if missing:
            raise self.error(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        if len(words) > len(self.words):
            raise self.error(f"{words[len(self.words)]!r} is one word too many; put text with spaces in quotes")


def build(name: str, command: Command) -> tuple[Parser, Callable[[Any], int | None]]:
    """The command's parser, and the function that does it."""
    module_name = f"dibs.cli.{command.module}"
    __import__(module_name)
    module, function = sys.modules[module_name], name.replace("-", "_").replace(" ", "_")
    parser = Parser(name, command)
    getattr(module, f"{function}_options")(parser)
    parser.everywhere()
    do: Callable[[Any], int | None] = getattr(module, NOT_A_NAME.get(function, function))
    return parser, do


def _before_and_after_dashes(line: list[str]) -> tuple[list[str], list[str]]:
    at = line.index("--") if "--" in line else len(line)
    return line[:at], line[at + 1 :]


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("this is no whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("this is no number") from None


def _nearest(name: str, known: dict[str, Option]) -> str:
    import difflib

    words = {option.lstrip("-"): option for option in known}
    near = difflib.get_close_matches(name.lstrip("-"), words, n=1, cutoff=0.75)
    return f"; did you mean {words[near[0]]}" if near else "; a text that starts with - goes after --"
