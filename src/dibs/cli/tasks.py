"""A file of tasks, as the session-task design has it: into a board once, and kept as the board is from then on."""

from __future__ import annotations

from dibs import check
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean, number_of
from dibs.errors import Invalid
from dibs.maintenance import tasks_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How often the file is looked at while nothing happens on the board.
LOOK_SECONDS = 1.0


def import_tasks(cli: Cli, path: str, *, dry_run: bool) -> None:
    """Add the tasks that the board does not have; what it has stays as it is."""
    found = tasks_file.tasks(tasks_file.parse(tasks_file.read(path), path))
    fields = tasks_file.items(found)
    known = {item.id for item in cli.board.list(limit=check.LIST_MAX)}
    new = [one for one in fields if one["id"] not in known]
    _refuse_unknown_dependencies(new, known)
    answer: dict[str, Any] = {
        "added": [one["id"] for one in new],
        "existed": [one["id"] for one in fields if one["id"] in known],
        "over": len(found) - len(fields),
        "dry_run": dry_run,
    }
    if not dry_run:
        _add(cli, new)
    if cli.json:
        return cli.answer(answer)
    would = "would add" if dry_run else "added"
    cli.say(f"{cli.paint(would, 'green')} {number_of(len(new), 'item')}")
    if answer["existed"]:
        cli.say(cli.paint(f"  {number_of(len(answer['existed']), 'item')} there already, left alone", "dim"))
    if answer["over"]:
        cli.say(cli.paint(f"  {number_of(answer['over'], 'task')} over in the file, left out", "dim"))
    return None


def mirror_options(parser: Parser) -> None:
    parser.word("file", "a file of tasks, like tasks.json")
    parser.option("--once", help="bring it up to date, then stop")


def mirror(cli: Cli) -> None:
    """Keep `status` and `claim` of each task in the file as they are on the board."""
    path = cli.args.file
    try:
        target = tasks_file.Mirror(path)
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field="file") from error
    try:
        if cli.args.once:
            _tell(cli, path, target.write(tasks_file.states(cli.board)))
            return
        _follow(cli, path, target)
    finally:
        target.close()


def _follow(cli: Cli, path: str, target: tasks_file.Mirror) -> None:
    watch = cli.board.watch(sweeps=True)
    complaint = None
    try:
        while True:
            try:
                if target.write(tasks_file.states(cli.board)):
                    _tell(cli, path, True)
                complaint = None
            except (tasks_file.Unreadable, tasks_file.Busy) as error:
                # Somebody may be writing it; said once, since it may stay so.
                if complaint != error.message:
                    cli.remark(complaint := error.message)
            watch.wait(LOOK_SECONDS)
    finally:
        watch.close()


def _tell(cli: Cli, path: str, written: bool) -> None:
    if cli.json:
        cli.answer({"file": path, "written": written})
    else:
        cli.say(f"{clean(path)} {'brought up to date' if written else 'is up to date'}")


def _refuse_unknown_dependencies(new: list[dict[str, Any]], known: set[str]) -> None:
    there = known | {one["id"] for one in new}
    for one in new:
        for needed in one["depends_on"]:
            if needed not in there:
                unknown = f"depends on {needed}, which is neither in the file nor on the board"
                raise Invalid(f"{one['id']} {unknown}; nothing was added", field="file")


def _add(cli: Cli, new: list[dict[str, Any]]) -> None:
    """In as many steps as it needs; the tasks that others depend on first, so that each step is whole."""
    for batch in _batches(new):
        cli.board.add_many(batch)


def _batches(new: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    if len(new) <= check.BATCH_MAX:
        return [new] if new else []
    from graphlib import CycleError, TopologicalSorter

    by_id = {one["id"]: one for one in new}
    order = TopologicalSorter({id: [need for need in one["depends_on"] if need in by_id] for id, one in by_id.items()})
    try:
        sorted_ids = list(order.static_order())
    except CycleError as error:
        raise Invalid(f"these tasks wait for each other: {', '.join(error.args[1])}", field="file") from error
    return [
        [by_id[id] for id in sorted_ids[at : at + check.BATCH_MAX]] for at in range(0, len(sorted_ids), check.BATCH_MAX)
    ]
