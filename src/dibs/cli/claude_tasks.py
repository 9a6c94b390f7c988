"""`dibs tasks link LIST`: the board's ready items as tasks of Claude Code."""

from __future__ import annotations

from dibs import check
from dibs.agents import task_list
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean, number_of
from dibs.model import READY

LIMIT = 100


def tasks_link_options(parser: Parser) -> None:
    parser.argument("list", "the list: CLAUDE_CODE_TASK_LIST_ID of its sessions")
    parser.number("--limit", help=f"how many items to take, best first (default: {LIMIT})", default=LIMIT)


def tasks_link(cli: Cli) -> None:
    """Add a task for each ready item that the list does not have. Tasks that are there stay as they are."""
    name = check.item_id(cli.args.list, "list")
    ready = cli.board.list(statuses=[READY], limit=cli.args.limit)
    folder, added = task_list.link(name, ready)
    existed = [item.id for item in ready if item.id not in added]
    lines = [f"{cli.paint('added', 'green')} {number_of(len(added), 'task')} to {clean(folder)}"]
    if existed:
        lines.append(cli.paint(f"  {number_of(len(existed), 'item')} had a task already, unchanged", "dim"))
    lines.append(cli.paint(f"  sessions share it with: export {task_list.ENV_LIST}={name}", "dim"))
    cli.reply({"folder": folder, "added": added, "existed": existed}, *lines)
