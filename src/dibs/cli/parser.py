"""The parser of one command's arguments, and the command's help.

A command declares positional arguments and options on a `Parser`; `parse` turns a list of words into `Args`. Options
may appear anywhere, as `--ttl 30m` or `--ttl=30m`; `--` ends them. A line that cannot be parsed is a `UsageError`. This
replaces argparse, because importing argparse takes as long as a whole claim.
"""

from __future__ import annotations

import sys

from dibs.cli.commands import EXAMPLES, Command
from dibs.errors import Invalid
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HELP_COLUMN = 24
#: Commands whose name is a Python keyword, and the names of their functions.
KEYWORDS = {"import": "import_", "open": "open_"}


class UsageError(Invalid):
    """The arguments do not form a command; exit code 2."""

    exit_code = 2


class Args:
    """The parsed arguments as attributes: `--request-id` becomes `request_id`."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def attribute_of(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def given_fields(args: Args) -> dict[str, Any]:
    """The fields of an item whose options were given, as they were given."""
    from dibs.model.item_fields import OPTIONS

    given = {name: getattr(args, attribute_of(field.option)) for name, field in OPTIONS.items()}
    return {field: value for field, value in given.items() if value not in (None, [])}


class Option:
    """An option or a positional argument. `metavar` is None for a switch; `repeated` collects values into a list, and
    `splits` takes a value apart at its commas."""

    def __init__(
        self,
        names: tuple[str, ...],
        metavar: str | None,
        help: str,
        *,
        convert: Callable[[str], Any] = str,
        default: Any = None,
        repeated: bool = False,
        splits: bool = False,
        required: bool = False,
    ) -> None:
        self.names, self.metavar, self.help = names, metavar, help
        self.convert, self.default, self.repeated, self.required = convert, default, repeated, required
        self.splits = splits
        self.attribute = attribute_of(names[-1])


class Parser:
    """The arguments of the command `name`."""

    def __init__(self, name: str, command: Command) -> None:
        self.name = name
        self.command = command
        self.arguments: list[Option] = []
        self.options: dict[str, Option] = {}
        self.has_trailing_command = False

    # Declarations

    def argument(self, name: str, help: str, *, optional: bool = False) -> None:
        """Declare a positional argument."""
        self.arguments.append(Option((name,), name.upper(), help, required=not optional))

    def option(self, *names: str, metavar: str | None = None, help: str, **settings: Any) -> None:
        """Declare an option with a value, or without `metavar` a switch; its last name names the attribute."""
        if metavar is None:
            settings["default"] = False
        option = Option(names, metavar, help, **settings)
        self.options.update(dict.fromkeys(names, option))

    def number(self, *names: str, help: str, metavar: str = "N", default: int | None = None) -> None:
        self.option(*names, metavar=metavar, help=help, convert=_integer, default=default)

    def rate(self, name: str, *, help: str) -> None:
        self.option(name, metavar="R", help=help, convert=_number)

    def duration(self, name: str, field: str, help: str, *, required: bool = False) -> None:
        def convert(text: str) -> float:
            return times.parse_duration(text, field)

        self.option(name, metavar="TIME", help=help, convert=convert, required=required)

    def json_object(self, name: str, help: str) -> None:
        def convert(text: str) -> dict[str, Any]:
            return parse_json_object(text, name.lstrip("-"))

        self.option(name, metavar="JSON", help=help, convert=convert)

    def trailing_command(self) -> None:
        """Everything after `--` is another program's command line."""
        self.has_trailing_command = True

    # Arguments that several commands share

    def item(self) -> None:
        self.argument("item", "the id of the item")

    def item_fields(self) -> None:
        """The fields of an item that `add`, `edit` and `claim --subject` set; `items.item_fields` reads them."""
        from dibs.model import NewItem
        from dibs.model.item_fields import OPTIONS

        for name, field in OPTIONS.items():
            kind, names = NewItem._kinds[name], (*field.short, field.option)
            if kind in ("Names", "ItemIds"):
                self.names(*names, metavar=field.metavar, help=field.help)
            elif kind == "Resources":
                self.option(*names, metavar=field.metavar, help=f"{field.help}; repeatable", repeated=True)
            elif kind == "Json":
                self.json_object(field.option, help=field.help)
            elif kind == "Count":
                self.number(*names, help=field.help)
            elif kind == "Seconds":
                self.duration(field.option, name, field.help)
            else:
                self.option(*names, metavar=field.metavar, help=field.help)

    def names(self, *names: str, metavar: str, help: str) -> None:
        """Names without commas, so that `a,b` is the same as the option twice."""
        self.option(*names, metavar=metavar, help=f"{help}; repeatable", repeated=True, splits=True)

    def labels(self, help: str = "only items with this label") -> None:
        self.names("--label", metavar="L", help=help)

    def types_and_projects(self) -> None:
        self.names("-t", "--type", metavar="T", help="only items of this type")
        self.names("--project", metavar="P", help="only items of this project")

    def quiet(self, what: str = "the id") -> None:
        self.option("-q", "--quiet", help=f"print only {what}")

    def identity(self) -> None:
        self.option("--session", metavar="ID", help="session to act as (default: DIBS_SESSION, or detected)")
        self.option("--agent", metavar="NAME", help="the session's agent (default: DIBS_AGENT)")

    def actor(self) -> None:
        self.option("--agent", "--actor", metavar="NAME", help="name to record (default: DIBS_AGENT, session's, you)")

    def token(self) -> None:
        self.number("--token", help="claim token (default: DIBS_CLAIM_TOKEN, or live claim)")

    def holder(self) -> None:
        """The options of the commands of a claim's holder."""
        self.token()
        self.request_id()
        self.identity()

    def ttl(self) -> None:
        self.duration("--ttl", "ttl_seconds", "expire after this time without a heartbeat: 90s, 30m")

    def reason(self, *, required: bool = False) -> None:
        self.option("--reason", metavar="TEXT", help="the reason, for the history", required=required)

    def revision(self) -> None:
        self.number("--revision", help="refuse unless the item is still at this revision")

    def links_and_cost(self) -> None:
        self.option("--link", metavar="NAME=URL", help="a result of the run; repeatable", convert=_link, repeated=True)
        self.json_object("--cost", "the cost of the run, a JSON object")

    def request_id(self) -> None:
        self.option("--request-id", metavar="ID", help="idempotency key: a repeated call changes nothing")

    def yes(self) -> None:
        self.option("--yes", help="do not ask for confirmation")

    def limit(self, default: int) -> None:
        self.number("-n", "--limit", help=f"show at most N (default: {default})", default=default)

    def common_options(self) -> None:
        """The options of every command; declared last, so that help lists them last."""
        self.option("--store", metavar="URL", help="the board (default: DIBS_STORE, or the nearest)")
        self.option("--json", help="print JSON, also for errors")
        self.option("--brief", help="print short JSON, for models")
        self.option("--no-color", help="print no colours on a terminal")
        self.option("-h", "--help", help="show this help")

    # Parsing

    def parse(self, words: list[str]) -> Args:
        args = Args()
        values = args.__dict__
        for declared in (*self.arguments, *self.options.values()):
            values[declared.attribute] = [] if declared.repeated else declared.default
        if self.has_trailing_command:
            at = words.index("--") if "--" in words else len(words)
            words, values["command"] = words[:at], words[at + 1 :]
        positional: list[str] = []
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word == "--":
                positional += words[at:]
                break
            if word[:1] != "-" or word == "-":
                positional.append(word)
                continue
            option, text = self._option(word)
            if option.metavar is None:
                values[option.attribute] = True
                continue
            if text is None:
                if at == len(words):
                    raise self.error(f"{word} needs a value: {word} {option.metavar}")
                text = words[at]
                at += 1
            found = [self._convert(option, word, part) for part in (text.split(",") if option.splits else (text,))]
            values[option.attribute] = [*values[option.attribute], *found] if option.repeated else found[0]
        for argument, word in zip(self.arguments, positional, strict=False):
            if values[argument.attribute] is not None:
                raise self.error(f"{argument.metavar} is given twice: {values[argument.attribute]!r} and {word!r}")
            values[argument.attribute] = word
        if not args.help:
            self._require(args, positional)
        return args

    def error(self, message: str) -> UsageError:
        return UsageError(message, field="arguments", usage=self.usage())

    def usage(self) -> str:
        arguments = [one.metavar if one.required else f"[{one.metavar}]" for one in self.arguments]
        required = [f"{one.names[-1]} {one.metavar}" for one in self.options.values() if one.required]
        command = ["-- COMMAND ..."] if self.has_trailing_command else []
        words = ["usage: dibs", self.name, *arguments, *required, "[options]", *command]
        return " ".join(word for word in words if word)

    def help(self) -> str:
        summary = self.command.summary
        lines = [self.usage(), "", summary[0].upper() + summary[1:] + ".", ""]
        rows = [(argument.metavar or "", argument.help) for argument in self.arguments]
        for option in dict.fromkeys(self.options.values()):
            rows.append((", ".join(option.names) + (f" {option.metavar}" if option.metavar else ""), option.help))
        lines += [f"  {names:<{HELP_COLUMN}}{about}" for names, about in rows]
        return "\n".join([*lines, "", "Examples:", *(f"  {line}" for line in EXAMPLES[self.name])])

    def _option(self, word: str) -> tuple[Option, str | None]:
        """The option that a word names, and the value within the word: `--ttl=30m`, `-n3`."""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
        else:
            name, value = word[:2], word[2:]
            equals = value
        option = self.options.get(name)
        if option is None:
            from dibs.cli import words

            option = self.options.get(words.option_alias(self.name, name, self.options) or "")
            if option is None:
                about = words.option_hint(self.name, name, self.options)
                raise self.error(f"dibs {self.name} has no option {name}; {about}")
        if equals and option.metavar is None:
            raise self.error(f"{name} takes no value")
        return option, value if equals else None

    def _convert(self, option: Option, word: str, text: str) -> Any:
        try:
            return option.convert(text)
        except Invalid as error:
            name = word.partition("=")[0]
            if not error.message.startswith(name):
                error.message = f"{name}: {error.message}"
            raise
        except ValueError as error:
            raise self.error(f"{word.partition('=')[0]} {text!r}: {error}") from error

    def _require(self, args: Args, positional: list[str]) -> None:
        missing = [o.metavar or "" for o in self.arguments if o.required and getattr(args, o.attribute) is None]
        missing += [o.names[-1] for o in self.options.values() if o.required and getattr(args, o.attribute) is None]
        if self.has_trailing_command and not args.command:
            missing.append("-- COMMAND")
        if missing:
            from dibs.cli import words

            is_missing = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
            raise self.error(is_missing + words.missing_hint(self.name, missing))
        if len(positional) > len(self.arguments):
            from dibs.cli import words

            extra = positional[len(self.arguments)]
            one_item = [argument.attribute for argument in self.arguments] == ["item"]
            hint = words.argument_hint(self.name, extra, one_item=one_item)
            raise self.error(f"unexpected argument {extra!r}; {hint}")


def build(name: str, command: Command) -> tuple[Parser, Callable[[Any], int | None]]:
    """Import the command's module; return its parser and its function."""
    module_name = f"dibs.cli.{command.module}"
    __import__(module_name)
    module, function = sys.modules[module_name], name.replace("-", "_").replace(" ", "_")
    parser = Parser(name, command)
    declare = getattr(module, f"{function}_options", None)
    if declare is not None:
        declare(parser)
    parser.common_options()
    return parser, getattr(module, KEYWORDS.get(function, function))


def parse_json_object(text: str | bytes, field: str) -> dict[str, Any]:
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f'{field} is not valid JSON: {error}; write {{"key": "value"}}', field=field) from error
    if not isinstance(found, dict):
        raise Invalid(f'{field} must be a JSON object, like {{"key": "value"}}', field=field)
    return found


def _link(text: str) -> tuple[str, str]:
    name, _, target = text.partition("=")
    if not (name and target):
        raise UsageError(f"--link {text!r}: write it as NAME=URL", field="link")
    return name, target


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("not a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("not a number") from None
