"""The entry point: choose the command, run it, and turn whatever happens into one exit code and at most one line.

Exit codes: 0 done, 1 error, 2 wrong line (also: no session known), 3 nothing to claim, 4 conflict or claim lost,
5 not found, 6 not allowed, 75 try later, 130 interrupted (while waiting also 129, hung up, and 143, terminated). With
`--json` a refusal goes to stdout as `{"error": {...}}`, else to stderr as one line. Only the chosen command's module is
imported.
"""

from __future__ import annotations

import io
import os
import sys

from dibs.cli.commands import COMMANDS, split
from dibs.errors import DibsError, StoreUnusable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130
#: What a shell reports for a program that wrote into a closed pipe.
PIPE_CLOSED = 141


def run() -> NoReturn:
    """What the scripts `dibs` and `calldibs` call."""
    # Leaving at once: taking the interpreter apart piece by piece would take a tenth of the time of a claim, and
    # everything that matters is written and closed by now.
    os._exit(main(sys.argv[1:]))


def main(line: list[str]) -> int:
    """Do what the line says; the exit code."""
    _prepare_streams()
    try:
        code = _answer(line)
        sys.stdout.flush()
    except BrokenPipeError:
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _complain(f"the answer could not be written: {error.strerror}")
        return StoreUnusable.exit_code
    return code


def _answer(line: list[str]) -> int:
    try:
        return _dispatch(line)
    except BrokenPipeError:
        raise
    except DibsError as error:
        return _refuse(error, _wants_json(line))
    except OSError as error:
        return _refuse(_of_the_system(error), _wants_json(line))


def _wants_json(line: list[str]) -> bool:
    """What stands after `--` is text, or another command's."""
    return "--json" in (line[: line.index("--")] if "--" in line else line)


def _prepare_streams() -> None:
    """A character that the terminal cannot show becomes a question mark, and a closed stream swallows what it gets."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - as open as the stream it stands for
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _dispatch(line: list[str]) -> int:
    name, rest = split(line)
    command = COMMANDS.get(name) if name else None
    if name is None or command is None:
        from dibs.cli import overview

        return overview.without_command(name, rest)
    from dibs.cli.context import Cli
    from dibs.cli.parser import build

    parser, do = build(name, command)
    args = parser.read(rest)
    if args.help:
        sys.stdout.write(parser.help() + "\n")
        return 0
    cli = Cli(args)
    try:
        return do(cli) or 0
    finally:
        cli.close()


def _of_the_system(error: OSError) -> DibsError:
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return StoreUnusable("the folder this was called in is not there any more")
    return StoreUnusable(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))


def _refuse(error: DibsError, as_json: bool) -> int:
    _hide_passwords(error)
    if as_json:
        from dibs.text import json_text, wire

        sys.stdout.write(json_text.line(wire.error(error)) + "\n")
        return error.exit_code
    sys.stdout.flush()
    _complain(error.message)
    if "usage" in error.facts:
        sys.stderr.write(f"{error.facts['usage']}\n")
    return error.exit_code


def _hide_passwords(error: DibsError) -> None:
    """What is said about a wrong line may repeat a word of it, and that word may be the URL of a database."""
    texts = [error.message, *error.facts.values()]
    if any(isinstance(text, str) and "://" in text for text in texts):
        from dibs.location import without_password

        error.message = without_password(error.message)
        error.facts = {
            name: without_password(fact) if isinstance(fact, str) else fact for name, fact in error.facts.items()
        }


def _complain(message: str) -> None:
    from dibs.cli.render import clean

    sys.stderr.write(f"dibs: {clean(message)}\n")


if __name__ == "__main__":
    run()
