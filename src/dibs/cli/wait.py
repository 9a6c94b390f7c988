"""Waiting for one item: `claim --wait`, which queues and claims when its turn comes, and the bare tickets of `wait`
and `leave`, for those that come back to look.

While a claim waits it shows where it stands on stderr: on a terminal in one line that is redrawn, elsewhere with a line
whenever its place changes. Ctrl-C, SIGTERM and SIGHUP give the ticket up; a waiter that dies without a word loses it
when its offer or its ticket lapses.
"""

from __future__ import annotations

import signal
import sys

from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import clean, clock, cut, held_until, terminal_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from dibs.model import Grant, Waiting

ERASE = "\r\x1b[K"


def in_turn(cli: Cli, claim: Callable[[Callable[[Waiting], None]], Grant]) -> Grant:
    """Claim by waiting, telling the place in the queue as it changes; `claim` is given what to tell it to."""
    leave_politely()
    __import__("dibs.cli.claim_lines")  # needed in the end, and now there is time for it
    place = _Place(cli)
    try:
        return claim(place.show)
    finally:
        place.erase()


def wait_options(parser: Parser) -> None:
    parser.item()
    parser.duration("--ttl", "ttl_seconds", "how long your place is kept; ask again to renew (10m)")
    parser.identity()


def wait(cli: Cli) -> None:
    """Take a ticket or renew the one there is; when it is offered, `claim` takes the item."""
    asked = cli.args
    standing = identity.claiming(
        cli, lambda session: cli.board.wait(asked.item, session=session, ttl_seconds=asked.ttl)
    )
    if cli.json:
        return cli.answer(standing)
    item = cli.paint(clean(asked.item), "bold")
    if standing.offered:
        return cli.say(f"{cli.paint('yours to take', 'green')} {item}  now: dibs claim {clean(asked.item)}")
    until = f"your place is kept until {clock(standing.ticket.expires_at)}"
    return cli.say(f"{cli.paint('waiting', 'yellow')} {item}  {place(standing)}", cli.paint(f"  {until}", "dim"))


def leave_options(parser: Parser) -> None:
    parser.item()
    parser.request_id()
    parser.identity()


def leave(cli: Cli) -> None:
    asked = cli.args
    left = identity.holding(
        cli, lambda session: cli.board.leave(asked.item, session=session, request_id=asked.request_id)
    )
    if cli.json:
        return cli.answer(left)
    return cli.say(f"{cli.paint('left', 'yellow')} the queue of {cli.paint(clean(asked.item), 'bold')}")


def place(standing: Waiting) -> str:
    """Where a waiter stands, and what it waits for, in plain words."""
    before = f"{ordinal(standing.position)} in line"
    claim = standing.claim
    if claim is None:
        return f"{before}; the item is {standing.status}"
    who = f"{clean(claim.agent)} (session {clean(claim.session)})"
    return f"{before}; {who} has it {held_until(claim.expires_at)}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


class _Place:
    """The line that tells where a claim stands while it waits."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self._columns = terminal_columns(sys.stderr)
        self._told = ""
        self._position = 0

    def show(self, standing: Waiting) -> None:
        text = f"waiting for {clean(self._cli.args.item)}: {place(standing)}"
        if self._columns is None:
            if standing.position != self._position:
                self._position = standing.position
                self._cli.remark(text)
        elif text != self._told:
            self._told = text
            # One column short, so that no terminal wraps the line it is going to erase.
            sys.stderr.write(ERASE + cut(text, (terminal_columns(sys.stderr) or self._columns) - 1))
            sys.stderr.flush()

    def erase(self) -> None:
        if self._columns is not None and self._told:
            try:
                sys.stderr.write(ERASE)
                sys.stderr.flush()
            except OSError:
                pass  # the terminal is gone, and with it the line


def leave_politely() -> None:
    """Terminated or hung up, this process leaves as it does by Ctrl-C: it puts everything in order first."""

    def leave(number: int, _: object) -> NoReturn:
        for other in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
