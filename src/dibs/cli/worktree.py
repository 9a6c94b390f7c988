"""The git worktrees that `dibs work --worktree` and `dibs exec --worktree` made in this repository."""

from __future__ import annotations

from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import ago, clean, number_of
from dibs.errors import Invalid, ItemNotFound
from dibs.model import IN_PROGRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The exit code if the worktree that was named is kept.
KEPT = 1


def worktree_list(cli: Cli) -> None:
    from dibs.worker.worktree import Worktrees

    worktrees = Worktrees(".")
    found = [worktrees.describe(record) for record in worktrees.all()]
    if cli.json:
        return cli.print_json({"worktrees": found})
    if not found:
        return cli.notice("dibs has made no worktree here; to have one for each item: dibs work --worktree")
    rows = [[one["item"], one["branch"], _state(one), ago(one["made_at"]), one["path"]] for one in found]
    header = ("item", "branch", "state", "made", "path")
    return cli.print(*cli.table(rows, header=header, shrink=(4, 1, 2), keep=(0,)))


def worktree_clean_options(parser: Parser) -> None:
    parser.argument("id", "only that of this item, also one kept with --keep", optional=True)


def worktree_clean(cli: Cli) -> int:
    """Remove worktrees from which nothing could be lost. Branches stay."""
    from dibs.worker.worktree import Worktrees

    worktrees, named = Worktrees("."), cli.args.id
    records = [record for record in worktrees.all() if named in (None, record.item)]
    if named is not None and not records:
        raise Invalid(f"dibs has made no worktree for {named!r} here; to see them: dibs worktree list", field="id")
    has_board = _has_board(cli)
    there = {record for record in records if worktrees.is_there(record)}
    reasons = {
        record: (_in_progress(cli, record.item) if has_board else None)
        or worktrees.remove(record.item, is_named=named is not None)
        for record in records
    }
    gone = [record for record, why in reasons.items() if why is None]
    removed = [{"item": record.item, "path": record.path} for record in gone if record in there]
    forgotten = [{"item": record.item, "path": record.path} for record in gone if record not in there]
    kept = [{"item": record.item, "path": record.path, "why": why} for record, why in reasons.items() if why]
    if cli.json:
        cli.print_json({"removed": removed, "forgotten": forgotten, "kept": kept})
    else:
        cli.print(*(f"{cli.paint('removed', 'green')} {clean(one['path'])}" for one in removed))
        cli.print(*(f"forgot {clean(one['path'])}: its worktree was not there any more" for one in forgotten))
        cli.print(*(f"{cli.paint('kept', 'yellow')} {clean(one['path'])}: {clean(one['why'])}" for one in kept))
        if not records:
            cli.notice("dibs has made no worktree here")
    return KEPT if named is not None and kept else 0


def _has_board(cli: Cli) -> bool:
    """False if the board was removed; its worktrees are there still."""
    try:
        return bool(cli.place.url)
    except Invalid:
        return False


def _in_progress(cli: Cli, item: str) -> str | None:
    """Why the worktree is kept. An agent that is no worker may use it too: the board knows who holds the item."""
    try:
        return "its item is in progress" if cli.board.get(item).item.status == IN_PROGRESS else None
    except ItemNotFound:
        return None


def _state(one: dict[str, Any]) -> str:
    if not one["exists"]:
        return "missing"
    words = ["in use" if one["in_use"] else (one["outcome"] or "left").replace("_", " ")]
    if one["uncommitted"]:
        words.append(f"{number_of(one['uncommitted'], 'file')} uncommitted")
    if "problem" in one:
        words.append(clean(one["problem"]))
    else:
        words.append("pushed or merged" if one["published"] else "not pushed")
    return ", ".join(words)
