"""Imports the issues of beads into a board."""

from __future__ import annotations

from dibs import check
from dibs.cli.context import Cli
from dibs.cli.items import open_input
from dibs.cli.render import now_ms, number_of
from dibs.cli.tasks import batches
from dibs.maintenance import beads_file
from dibs.model import PENDING_APPROVAL
from dibs.rules.table import RESTING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.maintenance.beads_file import Import
    from dibs.model import Item


def import_issues(cli: Cli, path: str, *, dry_run: bool) -> None:
    """Add the issues that the board does not have. An import that was interrupted is completed by the next one."""
    known = {item.id: item for item in cli.board.list(limit=check.LIST_MAX)}
    with open_input(path) as file:
        found = beads_file.read(file, frozenset(known), now_ms())
    new = [fields for fields in found.items if fields["id"] not in known]
    if not dry_run:
        for batch in batches(new):
            cli.board.add_many(batch)
        for fields in found.items:
            _settle(cli, fields, found, known.get(fields["id"]))
    answer: dict[str, Any] = {
        "added": [fields["id"] for fields in new],
        "existed": [fields["id"] for fields in found.items if fields["id"] in known],
        "done": sorted(found.done - known.keys()),
        "parked": sorted(found.parked - known.keys()),
        "skipped": found.skipped,
        "kept": found.kept,
        "dry_run": dry_run,
    }
    cli.reply(answer, *_lines(cli, answer))


def _settle(cli: Cli, fields: dict[str, Any], found: Import, before: Item | None) -> None:
    """End or park an item that was just added, or was added by an import that stopped before it could do so."""
    id = fields["id"]
    if before is not None and before.revision > 1:
        return
    if id in found.done and (before is None or before.status == PENDING_APPROVAL):
        cli.board.approve(id, done=True, comment=fields["payload"][beads_file.KEPT].get("close_reason"))
    elif id in found.parked and (before is None or before.status in RESTING):
        cli.board.park(id)


def _lines(cli: Cli, answer: dict[str, Any]) -> list[str]:
    told = (
        f"{cli.paint('would add' if answer['dry_run'] else 'added', 'green')} {number_of(len(answer['added']), 'item')}"
    )
    also = [(len(answer[name]), name) for name in ("done", "parked") if answer[name]]
    lines = [told + "".join(f", {count} {name}" for count, name in also)]
    if answer["existed"]:
        lines.append(cli.paint(f"  {number_of(len(answer['existed']), 'item')} existed already, unchanged", "dim"))
    for name, count in answer["skipped"].items():
        lines.append(cli.paint(f"  not work, skipped: {name} ({count})", "dim"))
    if answer["kept"]:
        lines.append(
            cli.paint("  dibs has no place for these; they stay in the payload, and an export returns them:", "dim")
        )
        lines += [cli.paint(f"    {name} ({count})", "dim") for name, count in answer["kept"].items()]
    return lines
