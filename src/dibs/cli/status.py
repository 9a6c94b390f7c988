"""`dibs` without a command: what the caller holds, what needs a person, and what is next, in at most 12 lines."""

from __future__ import annotations

import os
import sys

from dibs import config
from dibs.cli import identity
from dibs.cli.commands import Command
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import ELLIPSIS, GAP, STATUS_COLOURS, clean, number_of, terminal_columns, width
from dibs.errors import AgentAtCapacity, Invalid, RateLimited
from dibs.model import BLOCKED, FAILED, IN_PROGRESS, PARKED, PENDING_APPROVAL, READY, SCHEDULED
from dibs.rules import attention, claiming, limits
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model.dashboard import Brief, Held, View

    #: An item, what is to say about it, and the command that answers it.
    Line = tuple[Brief, str, str]

COMMAND = Command(group="history", module="status", summary="show what you hold, what needs you and what is next")
#: The most lines of each part. With a line for the counts, these are 12.
LINES = {"you hold": 4, "needs you": 5, "next": 2}
#: The least width of the texts beside whole commands.
TEXT_COLUMNS = 14
#: How many items are asked about for the next ones: others hold the resources of those before.
ASKED_MAX = 20
#: What keeps an agent from every item.
LIMITS = frozenset({AgentAtCapacity.code, RateLimited.code})
#: The statuses that the first line counts, the most important first.
COUNTED = (PENDING_APPROVAL, FAILED, IN_PROGRESS, READY, BLOCKED, SCHEDULED, PARKED)


def without_command(words: list[str]) -> int:
    parser = Parser("", COMMAND)
    parser.identity()
    parser.common_options()
    cli = Cli(parser.parse(words))
    try:
        return _show(cli)
    finally:
        cli.close()


def _show(cli: Cli) -> int:
    try:
        board = cli.board
    except Invalid as error:
        is_named = cli.args.store or os.environ.get(config.ENV_STORE)
        if cli.json or is_named or error.facts.get("field") != "store":
            raise
        from dibs.cli import help

        return help.refuse_without_command()
    who = identity.caller(cli)
    view = board.view()
    parts = {
        "you hold": _held(view, who.session),
        "needs you": _needs(view, who.session),
        "next": _next(cli, view, who),
    }
    if cli.json:
        cli.print_json(_answer(view, who.session, parts))
        return 0
    cli.print(_counts(cli, view), *_lines(cli, parts))
    return 0


def _counts(cli: Cli, view: View) -> str:
    """How many items have which status, as far as there is room."""
    counts = {
        status: f"{view.counts[status]} {status.replace('_', ' ')}" for status in COUNTED if view.counts.get(status)
    }
    columns = terminal_columns(sys.stdout)
    while columns is not None and len(", ".join(counts.values())) > columns:
        counts.popitem()
    shown = [cli.paint(text, STATUS_COLOURS.get(status, "")) for status, text in counts.items()]
    return ", ".join(shown) or 'nothing to do; add an item with: dibs add "Fix login"'


def _lines(cli: Cli, parts: dict[str, list[Line]]) -> list[str]:
    rows, styles = [], []
    for name, lines in parts.items():
        most = LINES[name]
        is_cut = name != "next" and len(lines) > most
        shown = lines[: most - is_cut]
        for number, (item, text, command) in enumerate(shown):
            rows.append(["" if number else name, item.id, text, command])
            styles.append(["dim", "bold", "", "cyan"])
        if is_cut:
            rows.append(["", f"and {len(lines) - len(shown)} more", "", ""])
            styles.append(["dim", "dim"])
    columns = terminal_columns(sys.stdout)
    others = sum(max(width(row[at]) for row in rows) for at in (0, 1, 3)) if rows else 0
    if columns is not None and others + TEXT_COLUMNS + 3 * len(GAP) > columns:
        for row in rows:
            # The id is in the line already, and a command that is cut could not be typed.
            row[3] = row[3].removesuffix(row[1]) + ELLIPSIS if row[1] and row[3].endswith(row[1]) else row[3]
    return cli.table(rows, styles=styles, shrink=(2,), keep=(1,))


def _held(view: View, session: str | None) -> list[Line]:
    items = {item.id: item for item in view.items}
    return [
        (items[held.item], f"{_left(view, held)}  {items[held.item].title}", f"dibs done {held.item}")
        for held in sorted(view.holdings, key=lambda held: held.expires_at)
        if held.session == session and held.item in items
    ]


def _left(view: View, held: Held) -> str:
    waiting = f", {number_of(len(held.waiters), 'waiter')}" if held.waiters else ""
    return f"{times.span((held.expires_at - view.at) / 1000)} left{waiting}"


def _needs(view: View, session: str | None) -> list[Line]:
    """Offers to the caller, and what needs a person, as on the dashboard; the most urgent first."""
    items, holdings = {item.id: item for item in view.items}, {held.item: held for held in view.holdings}
    lines: list[Line] = [
        (item, f"is offered to you for {_left_of(item, view)} more", f"dibs claim {item.id}")
        for item in view.items
        if item.status == READY and session is not None and item.offered_to == session
    ]
    for need in attention.needs(items, holdings, view.at, view.settings["stale_seconds"]):
        if not _is_own(holdings.get(need.item), session):
            lines.append((items[need.item], clean(" ".join(need.why.split())), f"dibs {need.verb} {need.item}"))
    return lines


def _left_of(offered: Brief, view: View) -> str:
    return times.span(((offered.offer_expires_at or view.at) - view.at) / 1000)


def _is_own(held: Held | None, session: str | None) -> bool:
    return held is not None and held.session == session


def _next(cli: Cli, view: View, who: identity.Caller) -> list[Line]:
    """What `dibs next` would give to the caller, as `why` explains it, the best first."""
    ready = [item for item in view.items if item.status == READY and item.offered_to is None]
    # Those that time has made ready come first in a view.
    ready.sort(key=lambda item: (-item.priority, item.created_at))
    agents = {seat.id: seat.agent for seat in view.sessions}
    whose = {"session": who.session} if who.session in agents else {"agent": who.agent or who.program}
    lines: list[Line] = []
    for item in _of_agent(cli, ready, agents.get(who.session or "", whose.get("agent")))[:ASKED_MAX]:
        reasons = cli.board.why(item.id, **whose)
        if all(reason.claimable for reason in reasons):
            lines.append((item, item.title, "" if lines else "dibs next"))
        if len(lines) == LINES["next"] or any(reason.code in LIMITS for reason in reasons):
            break
    return lines


def _of_agent(cli: Cli, ready: list[Brief], name: str | None) -> list[Brief]:
    """Those that the agent may take at all, so that `why` is asked about few others."""
    agent = next((one for one in cli.board.agents() if one.name == name), None) if ready and name else None
    if agent is None:
        return ready
    types = claiming.wanted_types(agent, ())
    return [
        item
        for item in ready
        if (types is None or item.type in types) and limits.may_take(agent, item.action, item.approved)
    ]


def _answer(view: View, session: str | None, parts: dict[str, list[Line]]) -> dict[str, Any]:
    held = {item.id for item, _, _ in parts["you hold"]}
    return {
        "session": session,
        "counts": view.counts,
        "holding": [one for one in view.holdings if one.item in held],
        "needs": [{"item": item.id, "why": text, "command": line} for item, text, line in parts["needs you"]],
        "next": [item for item, _, _ in parts["next"][: LINES["next"]]],
    }
