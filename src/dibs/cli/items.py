"""Add items, one or a file of them.

A file holds one JSON object a line. Its items are added in batches, each of them whole or not at all.
"""

from __future__ import annotations

import builtins
import sys

from dibs import check
from dibs.cli.claim_lines import attributes, new_status, stuck, unsatisfiable
from dibs.cli.context import Cli
from dibs.cli.listing import waits_for
from dibs.cli.parser import Parser, UsageError, given_fields, parse_json_object
from dibs.cli.render import number_of
from dibs.errors import DibsError, Invalid
from dibs.model import BLOCKED, READY, NewItem
from dibs.model.item_fields import OPTIONS
from dibs.text import priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, BinaryIO

    from dibs.model import Added

    #: Items with their line numbers.
    Batch = builtins.list[tuple[int, dict[str, Any]]]

#: Numbers that beads reads the other way round: there, 0 is the most urgent.
BEADS_PRIORITIES = ("0", "1", "2", "3", "4")
#: How many stuck items `add --file` names.
STUCK_SHOWN = 10


def item_fields(cli: Cli) -> dict[str, Any]:
    """The fields that the options of `Parser.item_fields` set."""
    given = given_fields(cli.args)
    if given.get("priority") in BEADS_PRIORITIES:
        priority = given["priority"]
        cli.notice(
            f"priority {priority} is {priorities.name(int(priority))} here: a higher number is sooner; "
            f"as in beads, write P{priority}"
        )
    return {field: _read(cli, field, value) for field, value in given.items()}


def _read(cli: Cli, field: str, given: Any) -> Any:
    match NewItem._kinds[field]:
        case "Flag":
            return _yes_or_no(given, field)
        case "Instant":
            return _instant(cli, given, field)
        case "Names":
            return [name for name in given if name]
        case "Text" if given == "-":
            return stdin_text()
    return given


def _yes_or_no(given: str, field: str) -> bool:
    if given not in ("yes", "no"):
        raise UsageError(f"{OPTIONS[field].option} must be yes or no, not {given!r}", field=field)
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


def _instant(cli: Cli, text: str, field: str) -> int | None:
    """An instant, a time of this machine's clock, a duration from now, or `now` for none."""
    if text == "now":
        return None
    if text.isdecimal():
        raise Invalid(
            f"{text!r} is ambiguous: write {text}s for seconds, or a time like 2026-11-15T09:30Z", field=field
        )
    try:
        seconds = times.parse_duration(text)
    except Invalid:
        return times.parse_clock_time(text, field)
    if cli.args.request_id is not None:
        raise UsageError(
            "a duration means another time in a repeated request; with --request-id, give"
            f" --{field.replace('_', '-')} as a time",
            field=field,
        )
    import time

    # The store compares this with its own clock; on SQLite that is this machine's.
    return round((time.time() + seconds) * 1000)


def add_options(parser: Parser) -> None:
    parser.argument("title", "the work to do, in one line", optional=True)
    parser.option("--title", metavar="TEXT", help="the same as TITLE")
    parser.option("--id", metavar="ID", help="the id (default: made from the title)")
    parser.item_fields()
    parser.option("--needs-approval", help="require approval before it can be claimed")
    parser.option("--file", metavar="FILE", help="add items from a file of JSON lines (- reads stdin)")
    parser.quiet()
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
    if args.quiet:
        return cli.print(added.id)
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
    cli.board.store.checkpoint_on_close()
    with open_input(path) as file:
        _add_batches(cli, file, tally)
    if cli.args.quiet:
        return cli.print(*tally.ids)
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
    from dibs.system import bounded_read  # `submit` imports this module and reads no file

    batch: Batch = []
    for number, line in enumerate(bounded_read.lines(file), start=1):
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
