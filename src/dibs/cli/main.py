"""The entry point: dispatch to the command and map every outcome to one exit code and at most one line of error.

Exit codes: 0 success, 1 error, 2 usage error (also: no session known), 3 nothing to claim, 4 conflict or claim lost,
5 not found, 6 not allowed, 75 try again later, 130 interrupted (while waiting also 129 for SIGHUP and 143 for SIGTERM).
With `--json` or `--brief`, a refusal goes to stdout as `{"error": ...}`; otherwise it goes to stderr as one line.
"""

from __future__ import annotations

import gc
import io
import os
import sys

from dibs.cli.commands import COMMANDS, has_only_options, split_command
from dibs.errors import DibsError, ItemNotFound, StoreUnavailable, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, NoReturn

    from dibs.cli.context import Cli
else:
    ModuleType = type(sys)

#: So many new objects start the garbage collector: more than a claim makes, most of them by its imports. By default
#: the collector would look through them dozens of times, for a tenth of a claim, and find nothing.
NEW_OBJECTS_MAX = 50_000
INTERRUPTED = 130
#: What a shell reports for a program that wrote into a closed pipe.
PIPE_CLOSED = 141


def run() -> NoReturn:
    """The console scripts `dibs` and `calldibs`."""
    gc.set_threshold(NEW_OBJECTS_MAX)
    postpone_collections()
    # Skip interpreter shutdown, which costs a tenth of a claim: all output is flushed and the board is closed by now.
    os._exit(main(sys.argv[1:]))


class _Collections(ModuleType):
    """The package `collections` until something asks it for an attribute."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get("collections") is self:
            del sys.modules["collections"], sys.modules["collections.abc"]
        import collections.abc

        vars(self).update(vars(collections))
        return getattr(collections, name)


def postpone_collections() -> None:
    """apsw imports `collections.abc` for one class. The interpreter has loaded that module already, but the package
    around it takes as long to import as apsw, a twentieth of a claim, and no claim needs it."""
    if "collections" not in sys.modules:
        import _collections_abc

        sys.modules["collections"] = _Collections("collections")
        sys.modules["collections.abc"] = _collections_abc


def main(argv: list[str]) -> int:
    """Run the command that `argv` names and return its exit code."""
    _prepare_streams()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _print_error(f"cannot write the output: {error.strerror}")
        return StoreUnusable.exit_code
    return code


def _run(argv: list[str]) -> int:
    try:
        return _dispatch(argv)
    except BrokenPipeError:
        raise
    except DibsError as error:
        return _refuse(error, argv)
    except OSError as error:
        return _refuse(_from_os_error(error), argv)


def _prepare_streams() -> None:
    """Print characters that the terminal cannot encode as question marks, and discard output to a closed stream."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open as long as the stream it replaces
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _dispatch(argv: list[str]) -> int:
    name, rest = split_command(argv)
    command = COMMANDS.get(name) if name else None
    if name is None and has_only_options(rest):
        from dibs.cli import status

        return status.without_command(rest)
    if name is None or command is None:
        from dibs.cli import help, words

        meant = words.meant(name, rest)
        if meant is not None:
            return _dispatch(meant)
        return help.without_command(name, rest)
    from dibs.cli.context import Cli
    from dibs.cli.parser import UsageError, build

    parser, function = build(name, command)
    args = parser.parse(rest)
    if args.help:
        sys.stdout.write(parser.help() + "\n")
        return 0
    cli = Cli(args)
    lost = _lost_token(cli)
    try:
        try:
            code = function(cli) or 0
        except ItemNotFound as error:
            if getattr(args, "item", None) is None:
                raise
            from dibs.cli import item_ids

            declined = item_ids.resolve(cli, name, error)
            lost = _lost_token(cli)
            code = declined or function(cli) or 0
        _acknowledge(cli, lost)
    except DibsError as error:
        if not isinstance(error, StoreUnavailable | UsageError):
            from dibs.cli import advice

            advice.advise(cli, name, parser.options, error)
            _acknowledge(cli, lost, error)
        raise
    finally:
        cli.close()
    return code


def _lost_token(cli: Cli) -> int | None:
    if getattr(cli.args, "item", None) is None:
        return None
    from dibs.cli import identity

    return identity.lost_token(cli)


def _acknowledge(cli: Cli, lost: int | None, refusal: DibsError | None = None) -> None:
    """After an answer of the board to a command about an item that was known to be lost, and after every refusal,
    which may be the first to report a loss."""
    is_news = lost is not None or (refusal is not None and getattr(cli.args, "item", None) is not None)
    if is_news and cli.has_board:
        from dibs.cli import identity

        identity.acknowledge(cli, lost, refusal)


def _from_os_error(error: OSError) -> DibsError:
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return StoreUnusable("the current folder no longer exists; cd to another one")
    return StoreUnusable(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))


def _refuse(error: DibsError, argv: list[str]) -> int:
    _hide_passwords(error)
    # After `--`, an option is text, or belongs to another command.
    options = argv[: argv.index("--")] if "--" in argv else argv
    if "--brief" in options:
        from dibs.text import brief, json_text

        sys.stdout.write(json_text.line(brief.error(error), compact=True) + "\n")
        return error.exit_code
    if "--json" in options:
        from dibs.text import json_text, wire

        sys.stdout.write(json_text.line(wire.error(error)) + "\n")
        return error.exit_code
    sys.stdout.flush()
    _print_error(error.message)
    if "usage" in error.facts:
        sys.stderr.write(f"{error.facts['usage']}\n")
    return error.exit_code


def _hide_passwords(error: DibsError) -> None:
    """Mask passwords in URLs: a usage error may quote an argument, and the argument may be a database URL."""
    texts = [error.message, *error.facts.values()]
    if any(isinstance(text, str) and "://" in text for text in texts):
        from dibs.location import without_password

        error.message = without_password(error.message)
        error.facts = {
            name: without_password(fact) if isinstance(fact, str) else fact for name, fact in error.facts.items()
        }


def _print_error(message: str) -> None:
    from dibs.cli.render import clean

    sys.stderr.write(f"dibs: {clean(message)}\n")


if __name__ == "__main__":
    run()
