"""Imports the issues of beads into a board."""

from __future__ import annotations

from dibs import check
from dibs.cli.context import Cli
from dibs.cli.items import open_input
from dibs.cli.render import number_of
from dibs.cli.tasks import batches
from dibs.errors import Forbidden
from dibs.maintenance import beads_file
from dibs.model import PARKED, PENDING_APPROVAL
from dibs.system import bounded_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.maintenance.beads_file import Import
    from dibs.model import Item

#: How much of the reason why an issue was closed becomes the comment of the approval. The payload has all of it.
REASON_LENGTH_MAX = 1000
#: How many of the issues that are closed in the file, but not on the board, are named.
CLOSED_SHOWN = 10


def import_issues(cli: Cli, path: str, *, dry_run: bool) -> None:
    """Add the issues that the board does not have. An import that was interrupted is completed by the next one."""
    before = cli.board.list(limit=check.LIST_MAX)
    known = {item.id for item in before}
    with open_input(path) as file:
        found = beads_file.read(bounded_read.lines(file), frozenset(known))
    done, parked = ({item.id for item in items} for items in _unsettled(before, found))
    new = [fields for fields in found.items if fields["id"] not in known]
    if not dry_run:
        for batch in batches(new):
            cli.board.add_many(batch)
        _settle(cli, found)
    answer: dict[str, Any] = {
        "added": [fields["id"] for fields in new],
        "existed": [fields["id"] for fields in found.items if fields["id"] in known],
        "completed": sorted(done | parked),
        "done": sorted(found.done - known | done),
        "parked": sorted(found.parked - known | parked),
        "closed_in_file": [
            item.id for item in before if item.id in found.done - done and not beads_file.is_closed(item)
        ],
        "skipped": found.skipped,
        "kept": found.kept,
        "dry_run": dry_run,
    }
    cli.reply(answer, *_lines(cli, answer))


def _settle(cli: Cli, found: Import) -> None:
    """End or park the items that an import has added, this one or one that was interrupted."""
    done, parked = _unsettled(cli.board.list(limit=check.LIST_MAX), found)
    try:
        for item in done:
            reason = str(item.payload[beads_file.KEPT].get("close_reason") or "")[:REASON_LENGTH_MAX]
            cli.board.approve(item.id, done=True, comment=reason or None, revision=item.revision)
        for item in parked:
            if item.status != PARKED:
                cli.board.park(item.id)
            cli.board.edit(item.id, not_before=None)
    except Forbidden as error:
        error.message = (
            f"{error.message}; the issues were added, but closed ones wait for approval and others to be parked: "
            "repeat the import as somebody who may approve and park"
        )
        raise


def _unsettled(items: Sequence[Item], found: Import) -> tuple[list[Item], list[Item]]:
    """The items that an import has added and that are still to be ended, and those that are still to be parked."""
    done = [
        item
        for item in items
        if item.id in found.done and item.status == PENDING_APPROVAL and item.token == 0
        if isinstance(item.payload.get(beads_file.KEPT), dict)
    ]
    return done, [item for item in items if item.id in found.parked and item.not_before == beads_file.NEVER]


def _lines(cli: Cli, answer: dict[str, Any]) -> list[str]:
    verb = cli.paint("would add" if answer["dry_run"] else "added", "green")
    also = "".join(f", {len(answer[name])} {name}" for name in ("done", "parked") if answer[name])
    lines = [f"{verb} {number_of(len(answer['added']), 'item')}{also}"]
    completed = len(answer["completed"])
    if completed:
        lines.append(cli.paint(f"  {number_of(completed, 'item')} of an import that was interrupted", "dim"))
    if unchanged := len(answer["existed"]) - completed:
        lines.append(cli.paint(f"  {number_of(unchanged, 'item')} existed already, unchanged", "dim"))
    if closed := answer["closed_in_file"]:
        lines.append(cli.paint(f"  closed in the file, but not here: {', '.join(closed[:CLOSED_SHOWN])}", "yellow"))
        if len(closed) > CLOSED_SHOWN:
            lines.append(cli.paint(f"    and {len(closed) - CLOSED_SHOWN} more; --json has all of them", "dim"))
    lines += [cli.paint(f"  not work, skipped: {name} ({count})", "dim") for name, count in answer["skipped"].items()]
    if answer["kept"]:
        lines.append(
            cli.paint("  dibs has no place for these; they stay in the payload, and an export has them:", "dim")
        )
        lines += [cli.paint(f"    {name} ({count})", "dim") for name, count in answer["kept"].items()]
    return lines
