"""Files of tasks like tasks.json: import them into a board, and keep their status and claims up to date."""

from __future__ import annotations

import json

from dibs import check
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean, number_of
from dibs.errors import Invalid
from dibs.maintenance import tasks_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How often the file is checked while nothing happens on the board.
LOOK_SECONDS = 1.0
#: Half of what a server takes in one request: text, and so much for each value.
BATCH_BYTES_MAX = 4_000_000
VALUE_BYTES = 80


def import_tasks(cli: Cli, path: str, *, dry_run: bool) -> None:
    """Add the tasks that the board does not have; items that exist stay as they are."""
    found = tasks_file.tasks(tasks_file.parse(tasks_file.read(path), path))
    fields = tasks_file.items(found)
    known = {item.id for item in cli.board.list(limit=check.LIST_MAX)}
    new = [one for one in fields if one["id"] not in known]
    _require_dependencies(new, known)
    answer: dict[str, Any] = {
        "added": [one["id"] for one in new],
        "existed": [one["id"] for one in fields if one["id"] in known],
        "over": len(found) - len(fields),
        "dry_run": dry_run,
    }
    if not dry_run:
        for batch in batches(new):
            cli.board.add_many(batch)
    lines = [f"{cli.paint('would add' if dry_run else 'added', 'green')} {number_of(len(new), 'item')}"]
    if answer["existed"]:
        lines.append(cli.paint(f"  {number_of(len(answer['existed']), 'item')} existed already, unchanged", "dim"))
    if answer["over"]:
        lines.append(cli.paint(f"  {number_of(answer['over'], 'task')} ended in the file, skipped", "dim"))
    cli.reply(answer, *lines)


def mirror_options(parser: Parser) -> None:
    parser.argument("file", "a file of tasks, like tasks.json")
    parser.option("--once", help="update the file once, then exit")


def mirror(cli: Cli) -> None:
    """Copy `status` and `claim` of each task from the board to the file."""
    path = cli.args.file
    try:
        target = tasks_file.Mirror(path)
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field="file") from error
    try:
        if cli.args.once:
            _print_written(cli, path, target.write(tasks_file.states(cli.board)))
            return
        _mirror_forever(cli, path, target)
    finally:
        target.close()


def _mirror_forever(cli: Cli, path: str, target: tasks_file.Mirror) -> None:
    watch = cli.board.watch(sweeps=True)
    complaint = None
    try:
        while True:
            try:
                if target.write(tasks_file.states(cli.board)):
                    _print_written(cli, path, True)
                complaint = None
            except (tasks_file.Unreadable, tasks_file.Busy) as error:
                # Another program may be writing the file; the same message is printed only once.
                if complaint != error.message:
                    cli.notice(complaint := error.message)
            watch.wait(LOOK_SECONDS)
    finally:
        watch.close()


def _print_written(cli: Cli, path: str, written: bool) -> None:
    cli.reply({"file": path, "written": written}, f"{clean(path)} {'updated' if written else 'is up to date'}")


def _require_dependencies(new: list[dict[str, Any]], known: set[str]) -> None:
    ids = known | {one["id"] for one in new}
    for one in new:
        for needed in one["depends_on"]:
            if needed not in ids:
                problem = f"{one['id']} depends on {needed}, which is neither in the file nor on the board"
                raise Invalid(f"{problem}; nothing was added", field="file")


def batches(new: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Batches of the size that a board and a server accept, in an order in which no task precedes its dependencies."""
    found: list[list[dict[str, Any]]] = []
    size = 0
    for one in _sorted(new) if len(new) > 1 else new:
        text = json.dumps(one)
        # Each value costs a server more than its text: see `JSON_VALUES_MAX`.
        more = len(text) + VALUE_BYTES * text.count(",")
        if not found or len(found[-1]) == check.BATCH_MAX or size + more > BATCH_BYTES_MAX:
            found.append([])
            size = 0
        found[-1].append(one)
        size += more
    return found


def _sorted(new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from graphlib import CycleError, TopologicalSorter

    by_id = {one["id"]: one for one in new}
    order = TopologicalSorter({id: [need for need in one["depends_on"] if need in by_id] for id, one in by_id.items()})
    try:
        return [by_id[id] for id in order.static_order()]
    except CycleError as error:
        raise Invalid(f"these tasks depend on each other: {', '.join(error.args[1])}", field="file") from error
