"""Whole boards: prune old items, back up, restore, export, import, copy to another store.

A command that cannot be undone asks for confirmation on a terminal and needs `--yes` elsewhere. An export is JSON
lines, `{"record": KIND, "value": {...}}`, and holds everything: importing it recreates the board.
"""

from __future__ import annotations

import json
import os
import stat
import sys

from dibs import check, location
from dibs.board import files
from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.progress import Progress, records_of
from dibs.cli.render import clean, now_ms, number_of
from dibs.errors import DibsError, Invalid
from dibs.system import durable
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO, TextIO

    from dibs.model import Prune

#: How many items one transaction deletes.
PRUNE_BATCH = 200
#: The kinds of records that `copy` counts.
COUNTED = ("item", "run", "event", "agent", "session", "claim", "ticket")


def prune_options(parser: Parser) -> None:
    parser.duration("--older-than", "older_than_seconds", "delete items that ended longer ago: 30d", required=True)
    parser.option("--dry-run", help="count what would be deleted, and delete nothing")
    parser.yes()


def prune(cli: Cli) -> int:
    args = cli.args
    if args.dry_run:
        found = cli.board.prune(older_than_seconds=args.older_than, dry_run=True)
        cli.reply(found, f"would delete {_deleted(found, args.older_than)}", "  to delete them: leave out --dry-run")
        return 0
    if not _confirmed(cli, lambda: f"delete {_count_ended(cli, args.older_than)}, with their history"):
        return identity.NOT_CONFIRMED
    pruned = _prune(cli, args.older_than)
    cli.reply(pruned, f"{cli.paint('deleted', 'green')} {_deleted(pruned, args.older_than)}")
    _note_kept(cli, args.older_than, pruned.event_floor)
    return 0


def _prune(cli: Cli, older_than_seconds: float) -> Prune:
    """Delete in batches, so that the progress is seen."""
    total = None
    if sys.stderr.isatty():
        total = cli.board.prune(older_than_seconds=older_than_seconds, dry_run=True).items
    events = 0
    with Progress("deleted", total, unit="item") as progress:
        while True:
            batch = cli.board.prune(older_than_seconds=older_than_seconds, limit=PRUNE_BATCH)
            progress.advance(batch.items)
            progress.draw()
            events += batch.events
            if batch.items < PRUNE_BATCH:
                return batch.replace(items=progress.count, events=events)


def _deleted(pruned: Prune, older_than_seconds: float) -> str:
    items = f"{number_of(pruned.items, 'item')} that ended over {times.span(older_than_seconds)} ago"
    return f"{items}, {number_of(pruned.events, 'event')}"


def _note_kept(cli: Cli, older_than_seconds: float, event_floor: int) -> None:
    """Say which webhook kept events from being deleted, if one did."""
    enabled = [webhook for webhook in cli.board.webhooks() if webhook.disabled_at is None]
    if enabled:
        last = min(enabled, key=lambda webhook: webhook.cursor)
        ahead = cli.board.events(after=max(last.cursor, event_floor), limit=1)
        if ahead and ahead[0].at < now_ms() - older_than_seconds * 1000:
            cli.notice(f"items with events after {last.cursor} stay until they were sent to the webhook {last.id}")


def _count_ended(cli: Cli, older_than_seconds: float) -> str:
    return _deleted(cli.board.prune(older_than_seconds=older_than_seconds, dry_run=True), older_than_seconds)


def backup_options(parser: Parser) -> None:
    parser.argument("file", "the file to create")


def backup(cli: Cli) -> None:
    path = _backup_file(cli)
    with Progress(f"backing up to {clean(cli.args.file)}"):
        unrecorded = cli.board.backup(path)
    size = os.path.getsize(path)
    megabytes = cli.paint(f"{size / 1e6:.1f} MB", "dim")
    cli.reply({"backup": path, "bytes": size}, f"{cli.paint('backed up', 'green')} to {clean(path)}  {megabytes}")
    if unrecorded is not None:
        cli.notice(f"the metrics of a server do not show this backup: its time is not recorded: {unrecorded.message}")


def restore_options(parser: Parser) -> None:
    parser.argument("file", "a backup or an export, of any kind of store")
    parser.yes()
    parser.actor()


def restore(cli: Cli) -> int:
    path = _backup_file(cli)
    if not _confirmed(cli, lambda: f"replace this board with {path}, losing every later change"):
        return identity.NOT_CONFIRMED
    with Progress(f"restoring {clean(cli.args.file)}"):
        count = cli.board.restore(path)
    cli.reply(
        {"restored": path, "items": count},
        f"{cli.paint('restored', 'green')} from {clean(path)}  {number_of(count, 'open item')}",
        cli.paint("  all earlier tokens are void: agents that were at work have to claim again", "dim"),
    )
    return 0


def _backup_file(cli: Cli) -> str:
    path: str = cli.args.file
    if "://" in path:
        raise Invalid("a backup is a file; to copy to another kind of store: dibs copy FROM TO", field="file")
    return os.path.abspath(path)


def _confirmed(cli: Cli, question: Callable[[], str]) -> bool:
    """Whether to do what cannot be undone: with `--yes`, or after a person at a terminal agreed."""
    if cli.args.yes:
        return True
    if not identity.can_confirm(cli):
        raise UsageError("this cannot be undone; to confirm, add --yes", field="yes")
    return identity.confirm(question())


def export_options(parser: Parser) -> None:
    parser.argument("file", "the file to create (default: stdout)", optional=True)
    parser.option("--to", metavar="KIND", help="the kind of file: export or beads (default: export)", default="export")


def export(cli: Cli) -> None:
    path, kind = cli.args.file, cli.args.to
    if kind not in ("export", "beads"):
        raise UsageError(f"unknown kind of file {kind!r}; choose export or beads", field="to")
    records = _records(cli) if kind == "export" else _issues(cli)
    if path is None or path == "-":
        _write(cli, records, sys.stdout)
        return None
    try:
        with durable.NewFile(path) as temporary, open(temporary, "w", encoding="ascii") as file:
            count = _write(cli, records, file)
    except FileExistsError:
        raise Invalid(f"{path} exists already; an export never overwrites a file", field="file") from None
    what = number_of(count, "record" if kind == "export" else "issue")
    line = f"{cli.paint('exported', 'green')} {what} to {clean(path)}"
    return cli.reply({"exported": count, "file": os.path.abspath(path)}, line)


def _records(cli: Cli) -> Iterator[dict[str, Any]]:
    for kind, value in cli.board.export():
        yield {"record": kind, "value": value}


def _issues(cli: Cli) -> Iterator[dict[str, Any]]:
    from dibs.maintenance import beads_file

    items = cli.board.list(limit=check.LIST_MAX)
    holders = {line.item.id: line.claim.agent for line in cli.board.who() if line.claim is not None}
    ids = frozenset(item.id for item in items)
    for item in items:
        yield beads_file.issue(item, ids, holders.get(item.id))


def _write(cli: Cli, records: Iterator[dict[str, Any]], out: TextIO) -> int:
    # On a terminal that gets the records themselves, a line of progress would be among them.
    is_shown = not out.isatty()
    total = records_of(cli.board) if is_shown else None
    with Progress("exported", total, is_estimate=True, is_shown=is_shown) as progress:
        for record in records:
            out.write(json.dumps(record) + "\n")
            progress.advance()
    return progress.count


def import_options(parser: Parser) -> None:
    parser.argument("file", "an export or a backup (- reads stdin)")
    parser.option("--from", metavar="KIND", help="export, tasks, beads or github (default: export)", default="export")
    parser.option("--dry-run", help="with --from: show what would be added")


def import_(cli: Cli) -> None:
    kind = getattr(cli.args, "from")
    if kind == "tasks":
        from dibs.cli import tasks

        return tasks.import_tasks(cli, cli.args.file, dry_run=cli.args.dry_run)
    if kind == "beads":
        from dibs.cli import beads

        return beads.import_issues(cli, cli.args.file, dry_run=cli.args.dry_run)
    if kind == "github":
        from dibs.cli import github

        return github.import_issues(cli, cli.args.file, dry_run=cli.args.dry_run)
    if kind != "export":
        raise UsageError(f"unknown kind of file {kind!r}; choose export, tasks, beads or github", field="from")
    if cli.args.dry_run:
        raise UsageError("--dry-run needs --from tasks, --from beads or --from github", field="dry_run")
    from dibs.cli.items import open_input

    with open_input(cli.args.file) as file:
        count = _import_records(cli, file)
    return cli.reply({"imported": count}, f"{cli.paint('imported', 'green')} {number_of(count, 'record')}")


def _import_records(cli: Cli, file: BinaryIO) -> int:
    """Import every record or none; a refusal names its line."""
    number = 0
    progress = Progress("imported", _size(file), unit="byte")

    def count(line: bytes) -> None:
        nonlocal number
        number += 1
        progress.advance(len(line))

    try:
        with progress, files.records(file, count) as records:
            return cli.board.load(records)
    except (DibsError, LookupError, TypeError, ValueError) as error:
        if not number:
            raise
        message = error.message if isinstance(error, DibsError) else f"the record is incomplete: {error!r}"
        raise Invalid(f"line {number}: {message}; nothing was imported", field="file", line=number) from error


def _size(file: BinaryIO) -> int | None:
    """The bytes of a file; None for a pipe."""
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def copy_options(parser: Parser) -> None:
    parser.argument("from", "the board to copy: a path, a URL, or its folder")
    parser.argument("to", "a new board: a path or a URL")


def _board_of(cli: Cli, folder: str) -> str:
    passed_over: list[str] = []
    url = location.find(folder, passed_over)
    for line in passed_over:
        cli.notice_once(line)
    return url


def copy(cli: Cli) -> None:
    from dibs.maintenance import copying

    source, target = getattr(cli.args, "from"), cli.args.to
    if cli.args.store or not source or not target:
        raise UsageError("copy takes FROM and TO, and no --store", field="arguments")
    source = _board_of(cli, source) if os.path.isdir(source) else source
    with Progress("copied", is_estimate=True) as progress:
        counts = copying.copy(source, target, progress=progress, total=records_of)
    cli.accept_vault(target)
    shown = {"from": location.printable(source), "to": location.printable(target)}
    total = ", ".join(number_of(counts[kind], kind) for kind in COUNTED if kind in counts)
    records = sum(counts.values())
    cli.reply(
        {**shown, "records": records, "copied": counts},
        f"{cli.paint('copied', 'green')} {number_of(records, 'record')} to {clean(shown['to'])}, and verified",
        *([f"  {total}"] if total else []),
        cli.paint(f"  {clean(shown['from'])} is unchanged: from now on, use only one of the two boards", "dim"),
        cli.paint("  to use the copy, set DIBS_STORE for every agent", "dim"),
    )
