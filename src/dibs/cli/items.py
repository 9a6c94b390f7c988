"""What is on the board: add, list."""

from __future__ import annotations

import builtins
import sys

from dibs import check
from dibs.cli.claim_commands import json_object
from dibs.cli.claim_lines import and_now, kind_of, will_not_move
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import GAP, STATUS_COLOURS, ago, number_of, table, terminal_columns, until, width
from dibs.errors import Invalid
from dibs.model import BLOCKED, ENDED, IN_PROGRESS, PENDING_APPROVAL, READY, SCHEDULED, STATUSES, Item
from dibs.text import priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Added

LIST_LIMIT = 1000
OPEN = tuple(status for status in STATUSES if status not in ENDED)
#: How each content option is spelled, and the field it fills.
CONTENT = {
    "project": "project",
    "type": "type",
    "action": "action",
    "phase": "phase",
    "priority": "priority",
    "timeout": "timeout_seconds",
    "retries": "retries",
}
#: A hint is shown beside a title only if that leaves the title so much.
TITLE_COLUMNS = 20


def content_options(parser: Parser) -> None:
    """The options that `add` and `edit` share."""
    parser.option("--body", metavar="TEXT", help="the text, in markdown (- is stdin)")
    parser.option("--type", metavar="T", help="what kind of work it is: bug, docs, ... (task)")
    parser.option("--priority", metavar="P", help="critical, security, high, ..., low; P0 to P4; or N")
    parser.option("--label", metavar="L", help="may be repeated", repeated=True)
    parser.option("--payload", metavar="JSON", help="data for whoever does it, as a JSON object")
    parser.option("--project", metavar="P", help="the project it belongs to (default)")
    parser.option("--action", metavar="A", help="what policies look at (its type)")
    parser.option("--phase", metavar="P", help="the phase it belongs to")
    parser.option("--needs", metavar="ID", help="what has to be done before; may be repeated", repeated=True)
    parser.option("--resource", metavar="R", help="a path or port:80 that it touches; may be repeated", repeated=True)
    parser.option("--not-before", metavar="TIME", help="not before then: 2h, 2026-11-15T09:30Z, now")
    parser.number("--retries", help="how often it is tried again after it failed (0)")
    parser.duration("--timeout", "timeout_seconds", "the longest one claim of it may last (8h)")


def content(cli: Cli) -> dict[str, Any]:
    """What the options said about an item, by field."""
    asked = cli.args
    fields = {field: getattr(asked, name) for name, field in CONTENT.items()}
    fields["labels"] = None if not asked.label else [label for label in asked.label if label]
    fields["payload"] = json_object(asked.payload, "payload")
    fields["depends_on"] = asked.needs or None
    fields["resources"] = asked.resource or None
    fields["body"] = stdin_text() if asked.body == "-" else asked.body
    if asked.priority == "0":
        cli.remark("priority 0 is below low (1), since the highest number comes first; if beads' P0 is meant, write P0")
    said = {field: value for field, value in fields.items() if value is not None}
    return said if asked.not_before is None else {**said, "not_before": _instant(cli, asked.not_before)}


def add_options(parser: Parser) -> None:
    parser.word("title", "what there is to do, in one line", optional=True)
    parser.option("--id", metavar="ID", help="its id; without one it is made from the title")
    content_options(parser)
    parser.option("--needs-approval", help="somebody has to say yes before it can be done")
    parser.option("--file", metavar="FILE", help="add a file of them, a JSON object a line (- is stdin)")
    parser.request_id()
    parser.actor()


def add(cli: Cli) -> None:
    asked = cli.args
    if asked.file is not None:
        if asked.title is not None or asked.id is not None or asked.needs_approval or content(cli):
            raise UsageError("--file says everything about its items; leave the other options out", field="file")
        from dibs.cli import add_file

        return add_file.add_file(cli, asked.file)
    if asked.title is None:
        raise UsageError("a title is needed, or --file FILE", field="title")
    fields = content(cli) | ({} if asked.id is None else {"id": asked.id})
    added = cli.board.add(asked.title, request_id=asked.request_id, needs_approval=asked.needs_approval, **fields)
    if cli.json:
        return cli.answer({"item": added.item, "existed": added.existed, "blockers": added.blockers})
    stuck = will_not_move(added, added.blockers, cli.paint)
    return cli.say(_told(cli, added, {**fields, "title": asked.title}), *(f"  {line}" for line in stuck))


def list_options(parser: Parser) -> None:
    parser.option("--status", metavar="S", help="only in this status; may be repeated", repeated=True)
    parser.option("--all", help="ended ones too")
    parser.option("--type", metavar="T", help="only this type; may be repeated", repeated=True)
    parser.option("--project", metavar="P", help="only this project; may be repeated", repeated=True)
    parser.option("--label", metavar="L", help="only with this label; may be repeated", repeated=True)
    parser.limit(LIST_LIMIT)


def list(cli: Cli) -> None:
    asked = cli.args
    statuses = asked.status or (() if asked.all else OPEN)
    limit = check.limit(asked.limit)
    items = cli.board.list(
        statuses=statuses,
        projects=asked.project,
        types=asked.type,
        labels=asked.label,
        limit=min(limit + 1, check.LIST_MAX),
    )
    if cli.json:
        cli.answer({"items": _with_assignees(cli, items[:limit])})
    elif items:
        cli.say(*_rows(cli, items[:limit]))
    else:
        cli.remark("no items" + ("" if asked.all or asked.status else " to be done; with ended ones: dibs list --all"))
    if len(items) > limit:
        cli.remark(f"there are more than {number_of(limit, 'item')}; see more with --limit")


def _with_assignees(cli: Cli, items: tuple[Item, ...]) -> builtins.list[dict[str, Any]]:
    """Each item with the agent that holds it, or null."""
    from dibs.text import wire

    agents = {}
    if any(item.status == IN_PROGRESS for item in items):
        agents = {line.item.id: line.claim.agent for line in cli.board.who() if line.claim is not None}
    return [{**wire.encode(item), "assignee": agents.get(item.id)} for item in items]


def hint(item: Item) -> str:
    """What an item that cannot be claimed by anyone waits for, in a few words."""
    if item.status == BLOCKED:
        return ", ".join(item.depends_on)
    if item.status == SCHEDULED and item.not_before is not None:
        return until(item.not_before)
    if item.status == PENDING_APPROVAL:
        return "approval"
    return "" if item.offered_to is None else f"session {item.offered_to}"


def stdin_text() -> str:
    """All of stdin; bytes that are no UTF-8 come through as surrogates, which the board refuses by name."""
    return sys.stdin.buffer.read(check.TEXT_BYTES_MAX + 1).decode("utf-8", "surrogateescape")


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
    title, columns = header.index("title"), terminal_columns(sys.stdout)
    hints = [hint(item) for item in items]
    if any(hints) and _fits(rows, title, hints, columns):
        header.insert(title + 1, "waits for")
        for row, style, words in zip(rows, styles, hints, strict=True):
            row.insert(title + 1, words)
            style += [""] * (title + 1 - len(style)) + ["dim"]
    return table(rows, header=header, styles=styles, shrink=(title, 0, title - 1), columns=columns, paint=cli.paint)


def _fits(rows: builtins.list[builtins.list[str]], title: int, hints: builtins.list[str], columns: int | None) -> bool:
    """Whether a column of hints leaves the titles enough room."""
    if columns is None:
        return True
    others = [max(width(row[i]) for row in rows) for i in range(len(rows[0])) if i != title]
    taken = sum(others) + max(map(width, hints)) + len(GAP) * len(rows[0])
    return columns - taken >= min(TITLE_COLUMNS, max(width(row[title]) for row in rows))


def _told(cli: Cli, item: Added, fields: dict[str, Any]) -> str:
    """What came of adding an item with these fields."""
    if item.existed:
        given = check.new_item({"id": item.id, **fields})
        is_as_given = all(getattr(item, name) == getattr(given, name) for name in fields)
        how = "unchanged" if is_as_given else "and was edited since"
        return f"{cli.paint(item.id, 'bold')} is there already, {how}  {and_now(item, cli.paint)}"
    line = f"{cli.paint('added', 'green')} {cli.paint(item.id, 'bold')}  {cli.paint(kind_of(item), 'dim')}"
    if item.status == BLOCKED:
        return f"{line}  it waits for {', '.join(blocker.item for blocker in item.blockers)}"
    return line if item.status == READY else f"{line}  it waits for {hint(item)}"


def _instant(cli: Cli, text: str) -> str | int | None:
    """`--not-before`: a time as it stands, a duration from now on, or `now` for no such time."""
    if text == "now":
        return None
    if text.isdecimal():
        raise Invalid(
            f"{text!r} could be seconds or a day: write {text}s, or a time like 2026-11-15T09:30Z", field="not_before"
        )
    try:
        seconds = times.parse_duration(text)
    except Invalid:
        return text
    if cli.args.request_id is not None:
        raise UsageError(
            "asked again under its request id, a duration would mean another time: give --not-before as a time",
            field="not_before",
        )
    import time

    # The store's clock decides when that is; on SQLite it is this machine's.
    return round((time.time() + seconds) * 1000)
