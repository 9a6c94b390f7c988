"""Whole boards: prune what is old, copy a board while it is in use, bring a copy back, write it as text and read it.

What cannot be taken back asks first on a terminal and needs `--yes` elsewhere. An export is JSON lines,
`{"record": KIND, "value": {...}}`: everything there is, so that an import gives the same board.
"""

from __future__ import annotations

import json
import os
import sys

from dibs import check
from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import clean, number_of
from dibs.errors import DibsError, Invalid
from dibs.files import durable
from dibs.model import ENDED
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO, TextIO

#: How often an export or import on a terminal says how far it is.
PROGRESS_RECORDS = 1000
NOT_DONE = 1


def prune_options(parser: Parser) -> None:
    parser.duration("--older-than", "older_than_seconds", "what ended longer ago than this: 30d", required=True)
    parser.yes()


def prune(cli: Cli) -> int:
    asked = cli.args
    age = times.span(asked.older_than)
    if not _confirmed(
        cli, lambda: f"forget {_old(cli, asked.older_than)} that ended over {age} ago, and all about them"
    ):
        return NOT_DONE
    pruned = cli.board.prune(older_than_seconds=asked.older_than)
    if cli.json:
        cli.answer(pruned)
    else:
        told = f"{number_of(pruned.items, 'item')} that ended over {age} ago, {number_of(pruned.events, 'event')}"
        cli.say(f"{cli.paint('forgot', 'green')} {told}")
    return 0


def backup_options(parser: Parser) -> None:
    parser.word("file", "the new file")


def backup(cli: Cli) -> None:
    path = _backup_file(cli)
    cli.board.backup(path)
    size = os.path.getsize(path)
    if cli.json:
        return cli.answer({"backup": path, "bytes": size})
    return cli.say(f"{cli.paint('backed up', 'green')} to {clean(path)}  {cli.paint(f'{size / 1e6:.1f} MB', 'dim')}")


def restore_options(parser: Parser) -> None:
    parser.word("file", "what dibs backup wrote")
    parser.yes()
    parser.actor()


def restore(cli: Cli) -> int:
    path = _backup_file(cli)
    if not _confirmed(cli, lambda: f"make this board what {path} says, losing all that came after"):
        return NOT_DONE
    concerned = cli.board.restore(path)
    if cli.json:
        cli.answer({"restored": path, "items": concerned})
    else:
        cli.say(f"{cli.paint('restored', 'green')} from {clean(path)}  {number_of(concerned, 'item')} not done")
        cli.say(cli.paint("  every token given before is void: whoever was at work claims again", "dim"))
    return 0


def export_options(parser: Parser) -> None:
    parser.word("file", "the new file (stdout)", optional=True)


def export(cli: Cli) -> None:
    path = cli.args.file
    if path is None or path == "-":
        _write(cli, sys.stdout)
        return None
    try:
        with durable.NewFile(path) as half, open(half, "w", encoding="ascii") as file:
            count = _write(cli, file)
    except FileExistsError:
        raise Invalid(f"{path} is there already; an export does not overwrite", field="file") from None
    if cli.json:
        return cli.answer({"exported": count, "file": os.path.abspath(path)})
    return cli.say(f"{cli.paint('exported', 'green')} {number_of(count, 'record')} to {clean(path)}")


def import_options(parser: Parser) -> None:
    parser.word("file", "what dibs export wrote (- is stdin)")
    parser.option("--from", metavar="KIND", help="what the file is: export, or tasks (export)", default="export")
    parser.option("--dry-run", help="with --from tasks: add nothing, say what would be")


def import_(cli: Cli) -> None:
    kind = getattr(cli.args, "from")
    if kind == "tasks":
        from dibs.cli import tasks

        return tasks.import_tasks(cli, cli.args.file, dry_run=cli.args.dry_run)
    if kind != "export":
        raise UsageError(f"unknown kind of file {kind!r}; choose export or tasks", field="from")
    if cli.args.dry_run:
        raise UsageError("--dry-run is for --from tasks", field="dry_run")
    from dibs.cli.add_file import opened

    with opened(cli.args.file) as file:
        count = _read(cli, file)
    if cli.json:
        return cli.answer({"imported": count})
    return cli.say(f"{cli.paint('imported', 'green')} {number_of(count, 'record')}")


def _backup_file(cli: Cli) -> str:
    path: str = cli.args.file
    if "://" in path:
        raise Invalid("a backup is a file; to another kind of board leads: dibs copy FROM TO", field="file")
    return os.path.abspath(path)


def _confirmed(cli: Cli, what: Callable[[], str]) -> bool:
    """Whether to go on with what cannot be taken back: with `--yes`, or after a person at a terminal agreed."""
    if cli.args.yes:
        return True
    if not identity.can_answer(cli):
        raise UsageError("this cannot be taken back: say --yes", field="yes")
    return identity.agreed(what())


def _old(cli: Cli, older_than_seconds: float) -> str:
    """How many items a prune would forget: at most, since those that something still waits for stay."""
    import time

    ended = cli.board.list(statuses=ENDED, limit=check.LIST_MAX)
    before = (time.time() - older_than_seconds) * 1000
    return f"up to {number_of(sum(item.updated_at < before for item in ended), 'item')}"


def _write(cli: Cli, out: TextIO) -> int:
    progress = Progress("exported")
    for kind, value in cli.board.export():
        out.write(json.dumps({"record": kind, "value": value}) + "\n")
        progress.one_more()
    progress.erase()
    return progress.count


def _read(cli: Cli, file: BinaryIO) -> int:
    """Everything or nothing; a refusal names the line it is about."""
    progress = Progress("read")
    lines = _Lines(file, progress)
    try:
        return cli.board.load(lines.records())
    except (DibsError, LookupError, TypeError, ValueError) as error:
        message = error.message if isinstance(error, DibsError) else f"this record is not whole: {error!r}"
        if not lines.number:
            raise
        raise Invalid(
            f"line {lines.number}: {message}; nothing was imported", field="file", line=lines.number
        ) from error
    finally:
        progress.erase()


class _Lines:
    """The records of an export, and the number of the line that is being read."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self.number = 0
        self._file = file
        self._progress = progress

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for line in self._file:
            self.number += 1
            if line.strip():
                self._progress.one_more()
                yield _record(line)


class Progress:
    """How far it is, on a terminal's stderr."""

    def __init__(self, what: str) -> None:
        self.count = 0
        self._what = what
        self._shown = sys.stderr.isatty()

    def one_more(self) -> None:
        self.count += 1
        if self._shown and self.count % PROGRESS_RECORDS == 0:
            sys.stderr.write(f"\r{number_of(self.count, 'record')} {self._what}")
            sys.stderr.flush()

    def erase(self) -> None:
        if self._shown and self.count >= PROGRESS_RECORDS:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _record(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"this is no JSON: {error}", field="file") from error
    kind, value = (found.get("record"), found.get("value")) if isinstance(found, dict) else (None, None)
    if not isinstance(kind, str) or not isinstance(value, dict):
        raise Invalid('a record is {"record": KIND, "value": {...}}', field="file")
    return kind, value
