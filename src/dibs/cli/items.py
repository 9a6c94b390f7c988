"""What is on the board: add, list, show."""

from __future__ import annotations

import builtins
import sys

from dibs import check, priority, when
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import (
    OUTCOME_COLOURS,
    STATUS_COLOURS,
    ago,
    clean,
    clock,
    number_of,
    paragraphs,
    table,
    terminal_columns,
)
from dibs.cli.telling import kind_of, notes
from dibs.cli.work import json_object
from dibs.model import ENDED, STATUSES, Detail, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
}


def content_options(parser: Parser) -> None:
    """The options that `add` and `edit` share."""
    parser.option("--body", metavar="TEXT", help="the text, in markdown (- is stdin)")
    parser.option("--type", metavar="T", help="what kind of work it is: bug, docs, ... (task)")
    parser.option("--priority", metavar="P", help="critical, security, high, medium, docs, low, or N")
    parser.option("--label", metavar="L", help="may be repeated", repeated=True)
    parser.option("--payload", metavar="JSON", help="data for whoever does it, as a JSON object")
    parser.option("--project", metavar="P", help="the project it belongs to (default)")
    parser.option("--action", metavar="A", help="what policies look at (its type)")
    parser.option("--phase", metavar="P", help="the phase it belongs to")
    parser.duration("--timeout", "timeout_seconds", "the longest one claim of it may last (8h)")


def content(cli: Cli) -> dict[str, Any]:
    """What the options said about an item, by field."""
    asked = cli.args
    fields = {field: getattr(asked, name) for name, field in CONTENT.items()}
    fields["labels"] = None if not asked.label else [label for label in asked.label if label]
    fields["payload"] = json_object(asked.payload, "payload")
    fields["body"] = _stdin_text() if asked.body == "-" else asked.body
    return {field: value for field, value in fields.items() if value is not None}


def add_options(parser: Parser) -> None:
    parser.word("title", "what there is to do, in one line", optional=True)
    parser.option("--id", metavar="ID", help="its id; without one it is made from the title")
    content_options(parser)
    parser.option("--file", metavar="FILE", help="add a file of them, a JSON object a line (- is stdin)")
    parser.request_id()
    parser.actor()


def add(cli: Cli) -> None:
    asked = cli.args
    if asked.file is not None:
        if asked.title is not None or asked.id is not None or content(cli):
            raise UsageError("--file says everything about its items; leave the other options out", field="file")
        from dibs.cli import intake

        return intake.add_file(cli, asked.file)
    if asked.title is None:
        raise UsageError("a title is needed, or --file FILE", field="title")
    fields = content(cli) | ({} if asked.id is None else {"id": asked.id})
    item = cli.board.add(asked.title, request_id=asked.request_id, **fields)
    if cli.json:
        return cli.answer({"item": item})
    if item.revision > 1:
        return cli.say(f"{cli.paint(item.id, 'bold')} is there already, {item.status}")
    return cli.say(f"{cli.paint('added', 'green')} {cli.paint(item.id, 'bold')}  {cli.paint(kind_of(item), 'dim')}")


def list_options(parser: Parser) -> None:
    parser.option("--status", metavar="S", help=" ".join(STATUSES), repeated=True)
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
        cli.answer({"items": items[:limit]})
    elif items:
        cli.say(*_rows(cli, items[:limit]))
    else:
        cli.remark("no items" + ("" if asked.all or asked.status else " to be done; with ended ones: dibs list --all"))
    if len(items) > limit:
        cli.remark(f"there are more than {number_of(limit, 'item')}; see more with --limit")


def show_options(parser: Parser) -> None:
    parser.item()


def show(cli: Cli) -> None:
    detail = cli.board.get(cli.args.item)
    return cli.answer(detail) if cli.json else cli.say(*_in_full(cli, detail))


def _rows(cli: Cli, items: tuple[Item, ...]) -> builtins.list[str]:
    projects = len({item.project for item in items}) > 1
    header = ["id", "status", "priority", "type", *(["project"] if projects else []), "title", "changed"]
    rows = [
        [
            item.id,
            item.status,
            priority.name(item.priority),
            item.type,
            *([item.project] if projects else []),
            item.title + "".join(f" #{label}" for label in item.labels),
            ago(item.updated_at),
        ]
        for item in items
    ]
    styles = [["bold", STATUS_COLOURS.get(item.status, "")] for item in items]
    title = header.index("title")
    columns = terminal_columns(sys.stdout)
    return table(rows, header=header, styles=styles, shrink=(title, 0, title - 1), columns=columns, paint=cli.paint)


def _in_full(cli: Cli, detail: Detail) -> builtins.list[str]:
    item, claim, paint = detail.item, detail.claim, cli.paint
    lines = [
        f"{paint(item.id, 'bold')}  {clean(item.title)}",
        f"  {paint(item.status, STATUS_COLOURS.get(item.status, ''))} · {kind_of(item)}"
        + (f" · {item.phase}" if item.phase else ""),
        paint(f"  added {ago(item.created_at)} by {clean(item.created_by)}, changed {ago(item.updated_at)}", "dim"),
    ]
    if claim is not None:
        held = f"held by {paint.agent(claim.agent)} (session {clean(claim.session)}) since {clock(claim.claimed_at)}"
        lines.append(f"  {held}, until {clock(claim.expires_at)} · token {claim.token}")
    if item.strikes:
        lines.append("  " + paint(number_of(item.strikes, "strike"), "yellow"))
    if item.body:
        lines += ["", *paragraphs(item.body, "  ")]
    if item.payload:
        import json

        lines += ["", *paragraphs(json.dumps(item.payload, indent=2), "  ")]
    if detail.runs:
        lines += ["", *_run_rows(cli, detail)]
    if detail.notes:
        lines += ["", f"  notes of {paint.agent(detail.runs[0].agent)}", *notes(detail.notes, paint, "  ")]
    return lines


def _run_rows(cli: Cli, detail: Detail) -> builtins.list[str]:
    rows, styles = [], []
    for run in detail.runs:
        took = when.span(((run.ended_at or run.started_at) - run.started_at) / 1000) if run.ended_at else ""
        outcome = run.outcome or ("running" if detail.claim and detail.claim.token == run.token else "lapsed")
        rows.append([f"token {run.token}", run.agent, outcome, took, ago(run.ended_at), run.reason or ""])
        styles.append(["dim", "", OUTCOME_COLOURS.get(outcome, "")])
    columns = terminal_columns(sys.stdout)
    return table(rows, styles=styles, shrink=(5, 1), columns=columns, paint=cli.paint, indent="  ")


def _stdin_text() -> str:
    """All of stdin; bytes that are no UTF-8 come through as surrogates, which the board refuses by name."""
    return sys.stdin.buffer.read(check.TEXT_BYTES_MAX + 1).decode("utf-8", "surrogateescape")
