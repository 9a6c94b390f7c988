"""What an item's id may be short for. This module is imported only after the board had no item with the exact id.

A read takes a prefix that one item has, and so does a command about the caller's own claims, which looks only among
these. Any other command changes something for others: it takes a prefix from a person at a terminal, and asks before it
ends something. Off a terminal it names the item that was meant, since a program that was given a wrong id would
otherwise act on an item that it does not know.
"""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.words import OWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.cli.context import Cli
    from dibs.errors import ItemNotFound

#: Commands that only read.
READS = frozenset({"show", "why", "log", "runs"})
#: Commands whose effect cannot be taken back.
FINAL = frozenset({"cancel", "force-release", "reject"})
#: How many candidates a message names.
NAMED = 5
#: How many ids are compared with one that is no prefix.
COMPARED = 200


def resolve(cli: Cli, command: str, error: ItemNotFound) -> int | None:
    """Replace the item of the arguments by the one it is short for. Raises `error`, with the candidates, if that is not
    clear or not allowed; returns an exit code if a person declined."""
    args: Any = cli.args
    short: str = args.item
    if error.facts.get("item") != short:
        raise error
    found = _own(cli, short) if command in OWN else cli.board.ids(short, limit=NAMED + 1)
    candidates = found or _alike(cli, short)
    is_allowed = command in READS or command in OWN or identity.can_confirm(cli)
    if len(found) != 1 or not is_allowed:
        raise _named(error, short, candidates)
    args.item = found[0]
    if command in FINAL and not identity.confirm(f"{command} {found[0]}"):
        return identity.NOT_CONFIRMED
    return None


def _own(cli: Cli, short: str) -> tuple[str, ...]:
    """The items that begin so, of those that the caller's session holds."""
    session = identity.caller(cli).session
    claims = [(holding.item.id, holding.claim or holding.soft) for holding in cli.board.who()]
    held = {item for item, claim in claims if claim is not None and claim.session == session}
    return tuple(sorted(item for item in held if item.startswith(short)))


def _alike(cli: Cli, short: str) -> tuple[str, ...]:
    """Items that were perhaps meant: those whose ids begin so, else those that are spelled alike."""
    import difflib

    begin = cli.board.ids(short, limit=NAMED + 1)
    if begin:
        return begin
    near = cli.board.ids(short[: max(1, len(short) // 2)], limit=COMPARED)
    return tuple(difflib.get_close_matches(short, near, n=NAMED, cutoff=0.75))


def _named(error: ItemNotFound, short: str, candidates: Sequence[str]) -> ItemNotFound:
    named = list(candidates[:NAMED])
    if len(candidates) > 1 and candidates[0].startswith(short):
        more = ", ..." if len(candidates) > NAMED else ""
        error.message = f"{short} is the beginning of several items: {', '.join(named)}{more}; type more of the id"
    elif named:
        error.message += f"; did you mean {' or '.join(named)}"
    error.facts["candidates"] = named
    return error
