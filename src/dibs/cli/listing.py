"""`dibs list`: items as a table that fits the terminal, with who holds each and what it waits for.

Ids are never cut, since they are what is typed next. If the terminal is narrow, the columns that matter least are left
out one after another, and then titles and reasons are cut.
"""

from __future__ import annotations

import builtins
import sys

from dibs import check
from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import (
    GAP,
    STATUS_COLOURS,
    agent_colour,
    ago,
    clock,
    kept_columns,
    number_of,
    terminal_columns,
    until,
    width,
)
from dibs.model import BLOCKED, ENDED, IN_PROGRESS, PENDING_APPROVAL, SCHEDULED, STATUSES
from dibs.text import priorities, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from dibs.model import Holding, Item
    from dibs.model.dashboard import Brief

LIST_LIMIT = 1000
#: The most items of one call that searches or sorts.
PAGE_MAX = 500
OPEN = tuple(status for status in STATUSES if status not in ENDED)
#: Words for several statuses.
GROUPS = {"open": OPEN, "closed": ENDED, "ended": ENDED, "all": STATUSES}
#: The orders of `--sort`, and other words for them.
SORTS = {"next": "next", "priority": "next", "updated": "updated", "changed": "updated", "created": "created"}
#: The columns that are left out of a narrow table, in this order.
DROPPED = ("changed", "type", "project", "priority")
HOLDER, CAUSE, BOTH, STATE = "holder", "waits for", "holder / waits for", "state"
#: The widths below which texts are not cut while another column can be left out.
LEAST = {"title": 18, HOLDER: 14, CAUSE: 14, BOTH: 14, STATE: 14}


def list_options(parser: Parser) -> None:
    parser.names("--status", metavar="S", help="only ready, blocked, ..., open or closed")
    parser.option("--all", help="include ended items")
    parser.option("--mine", help="only items that your session holds")
    parser.option("--agent", metavar="NAME", help="only items that this agent holds, or held last")
    parser.types_and_projects()
    parser.labels()
    parser.option("--search", metavar="TEXT", help="only items with these words in id, title, label")
    parser.option("--sort", metavar="BY", help="next (the default: priority first), updated, created")
    parser.option("--subject", metavar="KEY", help="only the item of this subject")
    parser.limit(LIST_LIMIT)
    parser.quiet("the ids")
    parser.option("--session", metavar="ID", help="with --mine: the session (default: yours)")


def list(cli: Cli) -> None:
    args = cli.args
    limit = check.limit(args.limit)
    items = _found(cli, limit)
    if args.quiet:
        cli.print(*(item.id for item in items[:limit]))
    elif cli.json:
        cli.print_json({"items": _with_assignees(cli, items[:limit])})
    elif items:
        cli.print(*_table(cli, items[:limit]))
    else:
        cli.notice(_nothing(cli))
    if len(items) > limit:
        cli.notice(f"there are more than {number_of(limit, 'item')}; raise --limit to see them")


def _nothing(cli: Cli) -> str:
    args = cli.args
    if args.mine:
        return "you hold nothing; to claim the best ready item: dibs next"
    if args.search or args.agent or args.label or args.type or args.project or args.status or args.subject:
        return "no such items" + ("" if args.all or args.status or args.subject else "; among ended ones: --all")
    return (
        'no items; to add one: dibs add "Fix login"' if args.all else "no open items; for ended ones: dibs list --all"
    )


def _found(cli: Cli, limit: int) -> Sequence[Item | Brief]:
    """The items to show, and one more if there are more."""
    args, statuses = cli.args, _statuses(cli)
    if args.mine:
        return _mine(cli, statuses)
    if args.search is not None or args.sort is not None or args.agent is not None:
        return _pages(cli, statuses, limit + 1)
    return cli.board.list(
        statuses=statuses,
        projects=args.project,
        types=args.type,
        labels=args.label,
        subject=args.subject,
        limit=min(limit + 1, check.LIST_MAX),
    )


def _statuses(cli: Cli) -> tuple[str, ...]:
    """The statuses that were asked for; without any, those of open items."""
    args = cli.args
    if args.all and args.status:
        raise UsageError("--all and --status contradict each other; give only one of them", field="status")
    # The item of a subject is meant whatever its status: one that has ended is in the way of a new one.
    if not args.status:
        return () if args.all or args.subject or args.mine else OPEN
    found: builtins.list[str] = []
    for word in args.status:
        found += _status(word)
    return tuple(dict.fromkeys(found))


def _status(word: str) -> tuple[str, ...]:
    name = word.strip().lower().replace("-", "_")
    if name in GROUPS or name in STATUSES:
        return tuple(GROUPS.get(name, (name,)))
    from dibs.cli.words import STATUS_WORDS

    if name in STATUS_WORDS:
        return (STATUS_WORDS[name],)
    choices = ", ".join((*STATUSES, "open", "closed", "all"))
    raise UsageError(f"unknown status {word!r}; choose one of {choices}", field="status")


def _mine(cli: Cli, statuses: tuple[str, ...]) -> builtins.list[Item]:
    args, session = cli.args, identity.require_session(cli)
    if args.search is not None or args.sort is not None or args.agent is not None or args.subject is not None:
        raise UsageError("--mine lists the few items that you hold; leave out the other filters", field="mine")
    return [
        holding.item
        for holding in cli.board.who()
        if (one := holding.claim or holding.soft) is not None
        and one.session == session
        and (not statuses or holding.item.status in statuses)
        and (not args.type or holding.item.type in args.type)
        and (not args.project or holding.item.project in args.project)
        and set(args.label) <= set(holding.item.labels)
    ]


def _pages(cli: Cli, statuses: tuple[str, ...], limit: int) -> builtins.list[Brief]:
    """Items that are searched or sorted, page by page."""
    args = cli.args
    if args.subject is not None:
        raise UsageError("--subject finds one item; leave out --search, --sort and --agent", field="subject")
    sort = SORTS.get(args.sort or "next")
    if sort is None:
        raise UsageError(f"unknown order {args.sort!r}; choose next, updated or created", field="sort")
    found: builtins.list[Brief] = []
    cursor, left_off = None, 0
    while len(found) < limit:
        page = cli.board.page(
            status=statuses,
            project=args.project,
            type=args.type,
            label=args.label,
            agent=args.agent,
            q=args.search,
            sort=sort,
            cursor=cursor,
            limit=min(limit - len(found), PAGE_MAX),
        )
        found += page.items
        cursor, left_off = page.next, page.left_off
        if cursor is None:
            break
    if left_off:
        cli.notice(f"{number_of(left_off, 'older ended item')} not searched")
    return found


def _holdings(cli: Cli, items: Sequence[Item | Brief]) -> dict[str, Holding]:
    if not any(item.status == IN_PROGRESS for item in items):
        return {}
    return {holding.item.id: holding for holding in cli.board.who() if holding.claim is not None}


def _with_assignees(cli: Cli, items: Sequence[Item | Brief]) -> builtins.list[dict[str, Any]]:
    """Each item with the agent that holds it, or null."""
    agents = {item: holding.claim.agent for item, holding in _holdings(cli, items).items() if holding.claim}
    return [{**cli.encode(item), "assignee": agents.get(item.id)} for item in items]


def _table(cli: Cli, items: Sequence[Item | Brief]) -> builtins.list[str]:
    holdings, blockers = _holdings(cli, items), _blockers(cli, items)
    causes = [_holder(holdings[item.id]) if item.id in holdings else _cause(item, blockers) for item in items]
    cause_colours = [_cause_colour(holdings.get(item.id)) for item in items]
    status_colours = [STATUS_COLOURS.get(item.status, "") for item in items]
    several = len({item.project for item in items}) > 1
    cause = _cause_name(items, causes)
    columns = {
        "id": [item.id for item in items],
        "status": [item.status for item in items],
        "priority": [priorities.name(item.priority) for item in items],
        "type": [item.type for item in items],
        "project": [item.project for item in items] if several else [],
        "title": [item.title + "".join(f" #{label}" for label in item.labels) for item in items],
        cause: causes,
        "changed": [ago(item.updated_at) for item in items],
    }
    styles = {"id": ["bold"], "status": status_colours, cause: cause_colours, "changed": ["dim"]}
    if not _fit(columns, terminal_columns(sys.stdout)):
        del columns["status"], columns[cause]
        titles = columns.pop("title")
        columns |= {STATE: builtins.list(map(_state, items, causes)), "title": titles}
        styles[STATE] = [
            of_cause if by else of_status
            for of_cause, of_status, by in zip(cause_colours, status_colours, causes, strict=True)
        ]
    header = builtins.list(columns)
    styled = [(styles.get(name, [""]) * len(items))[: len(items)] for name in header]
    return cli.table(
        builtins.list(zip(*columns.values(), strict=True)),
        header=header,
        styles=builtins.list(zip(*styled, strict=True)),
        shrink=[at for at, name in enumerate(header) if name in LEAST],
        keep=(0,),
    )


def _fit(columns: dict[str, builtins.list[str]], room: int | None) -> bool:
    """Leave out empty columns, and others until the rest fits; False if it does not fit even then."""
    for name in [name for name, cells in columns.items() if not any(cells)]:
        del columns[name]
    for name in ("", *DROPPED):
        columns.pop(name, None)
        widths = {name: max(map(width, (name, *cells))) for name, cells in columns.items()}
        widths["id"] = min(widths["id"], kept_columns(room or widths["id"] * 2))
        needed = sum(min(widest, LEAST.get(name, widest)) for name, widest in widths.items())
        if room is None or needed + len(GAP) * (len(columns) - 1) <= room:
            return True
    return False


def _state(item: Item | Brief, cause: str) -> str:
    """The status and its cause in one column, for a narrow terminal."""
    return f"needs {cause}" if item.status == BLOCKED else cause or item.status


def _cause_name(items: Sequence[Item | Brief], causes: Iterable[str]) -> str:
    shown = [item for item, cause in zip(items, causes, strict=True) if cause]
    kinds = {HOLDER if item.status == IN_PROGRESS else CAUSE for item in shown}
    return BOTH if len(kinds) != 1 else kinds.pop()


def _cause_colour(holding: Holding | None) -> str:
    return "dim" if holding is None or holding.claim is None else agent_colour(holding.claim.agent)


def _holder(holding: Holding) -> str:
    """`coder, 25m left`; for a claim that does not expire by the clock, the agent alone."""
    agent = "" if holding.claim is None else holding.claim.agent
    endless = holding.remaining_seconds > times.ENDLESS_SECONDS
    return agent if endless else f"{agent}, {times.span(holding.remaining_seconds)} left"


def _blockers(cli: Cli, items: Sequence[Item | Brief]) -> dict[str, tuple[str, ...]]:
    """The dependencies that are not done, of each blocked item."""
    blocked = [item for item in items if item.status == BLOCKED]
    if not blocked:
        return {}
    briefs: Iterable[Any] = blocked
    if not hasattr(blocked[0], "open_blockers"):
        briefs = cli.board.page(status=(BLOCKED,), limit=PAGE_MAX).items
    return {brief.id: tuple(blocker.item for blocker in brief.open_blockers) for brief in briefs}


def _cause(item: Item | Brief, blockers: dict[str, tuple[str, ...]]) -> str:
    if item.status == BLOCKED:
        return ", ".join(blockers.get(item.id, item.depends_on))
    return waits_for(item)


def waits_for(item: Item | Brief) -> str:
    """What keeps an unclaimed item from being claimed, in a few words."""
    if item.status == BLOCKED:
        return ", ".join(item.depends_on)
    if item.status == SCHEDULED and item.not_before is not None:
        return until(item.not_before)
    if item.status == PENDING_APPROVAL:
        return "approval"
    if item.offered_to is not None and item.offer_expires_at is not None:
        return f"session {item.offered_to} until {clock(item.offer_expires_at)}"
    return ""
