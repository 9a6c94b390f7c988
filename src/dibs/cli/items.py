"""Add items, one or a file of them, and list items.

A file holds one JSON object a line. Its items are added in batches, each of them whole or not at all.
"""

from __future__ import annotations

import builtins
import sys

from dibs import check
from dibs.cli.claim_lines import attributes, new_status, stuck, unsatisfiable
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError, parse_json_object
from dibs.cli.render import GAP, STATUS_COLOURS, ago, number_of, terminal_columns, until, width
from dibs.errors import DibsError, Invalid
from dibs.model import BLOCKED, ENDED, IN_PROGRESS, PENDING_APPROVAL, READY, SCHEDULED, STATUSES, Item
from dibs.text import priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, BinaryIO

    from dibs.model import Added

    #: Items with their line numbers.
    Batch = builtins.list[tuple[int, dict[str, Any]]]

LIST_LIMIT = 1000
OPEN = tuple(status for status in STATUSES if status not in ENDED)
#: Options that fill a field unchanged, and the field.
FIELDS = {
    "project": "project",
    "type": "type",
    "action": "action",
    "phase": "phase",
    "priority": "priority",
    "payload": "payload",
    "timeout": "timeout_seconds",
    "retries": "retries",
    "subject": "subject",
}
#: `list` shows the column "waits for" only if it leaves titles this many columns.
TITLE_COLUMNS = 20
#: How many stuck items `add --file` names.
STUCK_SHOWN = 10


def item_fields(cli: Cli) -> dict[str, Any]:
    """The fields that the options of `Parser.item_fields` set."""
    args = cli.args
    fields = {field: getattr(args, name) for name, field in FIELDS.items()}
    fields["labels"] = None if not args.label else [label for label in args.label if label]
    fields["depends_on"] = args.needs or None
    fields["review"] = None if args.review is None else _yes_or_no(args.review)
    fields["resources"] = args.resource or None
    fields["body"] = stdin_text() if args.body == "-" else args.body
    if args.priority == "0":
        cli.notice("priority 0 is below low (1): higher numbers come first; for the most urgent, write P0")
    given = {field: value for field, value in fields.items() if value is not None}
    return given if args.not_before is None else {**given, "not_before": _not_before(cli, args.not_before)}


def _yes_or_no(given: str) -> bool:
    if given not in ("yes", "no"):
        raise UsageError(f"--review must be yes or no, not {given!r}", field="review")
    return given == "yes"


def subject_fields(cli: Cli) -> dict[str, Any]:
    """The fields of the item that `claim --subject` may add, besides its subject."""
    args = cli.args
    if args.subject is None:
        raise UsageError("give the id of an item, or --subject KEY", field="item")
    if args.item is not None or args.soft:
        raise UsageError("--subject finds the item itself; leave out the item's id, and --soft", field="subject")
    fields = item_fields(cli)
    del fields["subject"]
    return fields if args.title is None else {**fields, "title": args.title}


def _not_before(cli: Cli, text: str) -> str | int | None:
    """`--not-before`: an instant, a duration from now, or `now` for none."""
    if text == "now":
        return None
    if text.isdecimal():
        raise Invalid(
            f"{text!r} is ambiguous: write {text}s for seconds, or a time like 2026-11-15T09:30Z", field="not_before"
        )
    try:
        seconds = times.parse_duration(text)
    except Invalid:
        return text
    if cli.args.request_id is not None:
        raise UsageError(
            "a duration means another time in a repeated request; with --request-id, give --not-before as a time",
            field="not_before",
        )
    import time

    # The store compares this with its own clock; on SQLite that is this machine's.
    return round((time.time() + seconds) * 1000)


def add_options(parser: Parser) -> None:
    parser.argument("title", "the work to do, in one line", optional=True)
    parser.option("--id", metavar="ID", help="the id (default: made from the title)")
    parser.item_fields()
    parser.option("--needs-approval", help="require approval before it can be claimed")
    parser.option("--file", metavar="FILE", help="add items from a file of JSON lines (- reads stdin)")
    parser.request_id()
    parser.actor()


def add(cli: Cli) -> None:
    args = cli.args
    if args.file is not None:
        if args.title is not None or args.id is not None or args.needs_approval or item_fields(cli):
            raise UsageError(
                "with --file, every field comes from the file; leave out the title and the options that set fields",
                field="file",
            )
        return _add_file(cli, args.file)
    if args.title is None:
        raise UsageError("give a title, or --file FILE", field="title")
    fields = item_fields(cli) | ({} if args.id is None else {"id": args.id})
    added = cli.board.add(args.title, request_id=args.request_id, needs_approval=args.needs_approval, **fields)
    if cli.json:
        return cli.print_json({"item": added.item, "existed": added.existed, "blockers": added.blockers})
    advice = stuck(added, added.blockers, cli.paint)
    return cli.print(_added_line(cli, added, {**fields, "title": args.title}), *(f"  {line}" for line in advice))


def _added_line(cli: Cli, item: Added, fields: dict[str, Any]) -> str:
    if item.existed and item.subject is not None:
        return f"{cli.paint(item.id, 'bold')} has this subject already  {new_status(item, cli.paint)}"
    if item.existed:
        given = check.new_item({"id": item.id, **fields})
        is_as_given = all(getattr(item, name) == getattr(given, name) for name in fields)
        how = "unchanged" if is_as_given else "and was edited since"
        return f"{cli.paint(item.id, 'bold')} exists already, {how}  {new_status(item, cli.paint)}"
    line = f"{cli.paint('added', 'green')} {cli.paint(item.id, 'bold')}  {cli.paint(attributes(item), 'dim')}"
    if item.status == BLOCKED:
        return f"{line}  waits for {', '.join(blocker.item for blocker in item.blockers)}"
    return line if item.status == READY else f"{line}  waits for {waits_for(item)}"


def list_options(parser: Parser) -> None:
    parser.option("--status", metavar="S", help="only items in this status; repeatable", repeated=True)
    parser.option("--all", help="include ended items")
    parser.types_and_projects()
    parser.option("--label", metavar="L", help="only items with this label; repeatable", repeated=True)
    parser.option("--subject", metavar="KEY", help="only the item of this subject")
    parser.limit(LIST_LIMIT)


def list(cli: Cli) -> None:
    args = cli.args
    limit = check.limit(args.limit)
    items = cli.board.list(
        # The item of a subject is meant whatever its status: one that has ended is in the way of a new one.
        statuses=args.status or (() if args.all or args.subject else OPEN),
        projects=args.project,
        types=args.type,
        labels=args.label,
        subject=args.subject,
        limit=min(limit + 1, check.LIST_MAX),
    )
    if cli.json:
        cli.print_json({"items": _with_assignees(cli, items[:limit])})
    elif items:
        cli.print(*_rows(cli, items[:limit]))
    else:
        cli.notice(
            "no items" if args.all or args.status or args.subject else "no open items; for ended ones: dibs list --all"
        )
    if len(items) > limit:
        cli.notice(f"there are more than {number_of(limit, 'item')}; raise --limit to see them")


def _with_assignees(cli: Cli, items: tuple[Item, ...]) -> builtins.list[dict[str, Any]]:
    """Each item with the agent that holds it, or null."""
    agents = {}
    if any(item.status == IN_PROGRESS for item in items):
        agents = {line.item.id: line.claim.agent for line in cli.board.who() if line.claim is not None}
    return [{**cli.encode(item), "assignee": agents.get(item.id)} for item in items]


def _rows(cli: Cli, items: tuple[Item, ...]) -> builtins.list[str]:
    projects = len({item.project for item in items}) > 1
    header = ["id", "status", "priority", "type", *(["project"] if projects else []), "title", "changed"]
    rows = [
        [
            item.id,
            item.status,
            priorities.name(item.priority),
            item.type,
            *([item.project] if projects else []),
            item.title + "".join(f" #{label}" for label in item.labels),
            ago(item.updated_at),
        ]
        for item in items
    ]
    styles = [["bold", STATUS_COLOURS.get(item.status, "")] for item in items]
    title, causes = header.index("title"), [waits_for(item) for item in items]
    if any(causes) and _fits(rows, title, causes):
        header.insert(title + 1, "waits for")
        for row, style, cause in zip(rows, styles, causes, strict=True):
            row.insert(title + 1, cause)
            style += [""] * (title + 1 - len(style)) + ["dim"]
    return cli.table(rows, header=header, styles=styles, shrink=(title, 0, title - 1))


def _fits(rows: builtins.list[builtins.list[str]], title: int, causes: builtins.list[str]) -> bool:
    """Whether the column of causes leaves the titles enough room."""
    columns = terminal_columns(sys.stdout)
    if columns is None:
        return True
    others = [max(width(row[i]) for row in rows) for i in range(len(rows[0])) if i != title]
    taken = sum(others) + max(map(width, causes)) + len(GAP) * len(rows[0])
    return columns - taken >= min(TITLE_COLUMNS, max(width(row[title]) for row in rows))


def waits_for(item: Item) -> str:
    """What keeps an unclaimed item from being claimed, in a few words."""
    if item.status == BLOCKED:
        return ", ".join(item.depends_on)
    if item.status == SCHEDULED and item.not_before is not None:
        return until(item.not_before)
    if item.status == PENDING_APPROVAL:
        return "approval"
    return "" if item.offered_to is None else f"session {item.offered_to}"


def stdin_text() -> str:
    """All of stdin; bytes that are not UTF-8 become surrogates, which the board refuses with a clear message."""
    return sys.stdin.buffer.read(check.TEXT_BYTES_MAX + 1).decode("utf-8", "surrogateescape")


def open_input(path: str) -> BinaryIO:
    """Open a file for reading, or stdin for `-`."""
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field="file") from error


def _add_file(cli: Cli, path: str) -> None:
    """Add the file's items; a refusal names the line, and the number of items added before it."""
    tally = _Tally()
    with open_input(path) as file:
        _add_batches(cli, file, tally)
    if cli.json:
        answer = {"added": tally.new, "ids": tally.ids, "existed": tally.existed, "will_not_move": tally.stuck}
        return cli.print_json(answer)
    cli.print(f"{cli.paint('added', 'green')} {tally}")
    if tally.stuck:
        shown = ", ".join(tally.stuck[:STUCK_SHOWN]) + (", ..." if len(tally.stuck) > STUCK_SHOWN else "")
        cli.print(cli.paint(f"  will stay blocked: {shown}; see dibs show {tally.stuck[0]}", "red"))
    return None


class _Tally:
    """The items of a file: all ids, those that existed already, and those that a dependency blocks which ended without
    being done."""

    def __init__(self) -> None:
        self.ids: builtins.list[str] = []
        self.existed: builtins.list[str] = []
        self.stuck: builtins.list[str] = []

    @property
    def new(self) -> int:
        return len(self.ids) - len(self.existed)

    def count(self, items: Iterable[Added]) -> None:
        for item in items:
            self.ids.append(item.id)
            if item.existed:
                self.existed.append(item.id)
            if unsatisfiable(item, item.blockers):
                self.stuck.append(item.id)

    def __str__(self) -> str:
        return number_of(self.new, "item") + (f", {len(self.existed)} existed already" if self.existed else "")


def _add_batches(cli: Cli, file: BinaryIO, tally: _Tally) -> None:
    progress = sys.stderr.isatty()
    try:
        for number, batch in enumerate(_batches(file), start=1):
            tally.count(_add_batch(cli, batch, number))
            if progress:
                sys.stderr.write(f"\radded {tally}")
                sys.stderr.flush()
    except DibsError as error:
        error.message += f"; added before that line: {tally}"
        error.facts["added"] = tally.new
        raise
    finally:
        if progress and tally.ids:
            sys.stderr.write("\r\x1b[K")


def _add_batch(cli: Cli, batch: Batch, number: int) -> tuple[Added, ...]:
    request_id = cli.args.request_id and f"{cli.args.request_id}:{number}"
    try:
        return cli.board.add_many([fields for _, fields in batch], request_id=request_id)
    except Invalid as error:
        line = _line_of(error, batch)
        if line is not None:
            error.message, error.facts["line"] = f"line {line}: {error.message}", line
        raise


def _line_of(error: Invalid, batch: Batch) -> int | None:
    """The line that a refusal is about: by its number in the batch, or by the id that is taken."""
    if "number" in error.facts:
        number: int = error.facts.pop("number")
        return batch[number - 1][0]
    return next((line for line, fields in batch if fields.get("id") == error.facts.get("item", ...)), None)


def _batches(file: BinaryIO) -> Iterator[Batch]:
    """The items in batches of the size that the board accepts. Lines before an invalid one are yielded first."""
    batch: Batch = []
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            batch.append((number, parse_json_object(line, "the item")))
        except Invalid as error:
            if batch:
                yield batch
            raise Invalid(f"line {number}: {error.message}", field="file", line=number) from error
        if len(batch) == check.BATCH_MAX:
            yield batch
            batch = []
    if batch:
        yield batch
