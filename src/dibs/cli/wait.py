"""Queues: `claim --wait`, which waits for its turn and claims, and the tickets of `wait` and `leave`, which return at
once.

A waiting claim shows its position on stderr: on a terminal in one line that is redrawn, elsewhere in a line for each
change. Ctrl-C, SIGTERM and SIGHUP give up the ticket; a killed waiter loses it when its offer or its ticket expires.
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

ERASE_LINE = "\r\x1b[K"


def showing_position(cli: Cli, claim: Callable[[Callable[[Waiting], None]], Grant]) -> Grant:
    """Call `claim` with a callback that shows the position in the queue."""
    exit_on_termination()
    __import__("dibs.cli.claim_lines")  # needed for the answer; loaded now, while there is nothing else to do
    position = _PositionLine(cli)
    try:
        return claim(position.show)
    finally:
        position.erase()


def wait_options(parser: Parser) -> None:
    parser.item()
    parser.duration("--ttl", "ttl_seconds", "keep the place this long; repeat to renew (10m)")
    parser.identity()


def wait(cli: Cli) -> None:
    """Take a ticket, or renew the caller's; once the item is offered, `claim` takes it."""
    args, paint = cli.args, cli.paint
    place = identity.with_session(cli, lambda session: cli.board.wait(args.item, session=session, ttl_seconds=args.ttl))
    item = paint(clean(args.item), "bold")
    if place.offered:
        return cli.reply(place, f"{paint('offered to you', 'green')} {item}  now: dibs claim {clean(args.item)}")
    until = f"  your place is kept until {clock(place.ticket.expires_at)}"
    return cli.reply(place, f"{paint('waiting', 'yellow')} {item}  {describe(place)}", paint(until, "dim"))


def leave_options(parser: Parser) -> None:
    parser.item()
    parser.request_id()
    parser.identity()


def leave(cli: Cli) -> None:
    args = cli.args
    left = identity.with_known_session(
        cli, lambda session: cli.board.leave(args.item, session=session, request_id=args.request_id)
    )
    cli.reply(left, f"{cli.paint('left', 'yellow')} the queue of {cli.paint(clean(args.item), 'bold')}")


def describe(place: Waiting) -> str:
    """The position in the queue, and the claim or the status that blocks the item."""
    position = f"{ordinal(place.position)} in line"
    claim = place.claim
    if claim is None:
        return f"{position}; the item is {place.status}"
    holder = f"{clean(claim.agent)} (session {clean(claim.session)})"
    return f"{position}; {holder} holds it {held_until(claim.expires_at)}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


class _PositionLine:
    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self._columns = terminal_columns(sys.stderr)
        self._shown = ""
        self._position = 0

    def show(self, place: Waiting) -> None:
        text = f"waiting for {clean(self._cli.args.item)}: {describe(place)}"
        if self._columns is None:
            if place.position != self._position:
                self._position = place.position
                self._cli.notice(text)
        elif text != self._shown:
            self._shown = text
            # One column short: a terminal would wrap a full line, and a wrapped line cannot be erased.
            sys.stderr.write(ERASE_LINE + cut(text, (terminal_columns(sys.stderr) or self._columns) - 1))
            sys.stderr.flush()

    def erase(self) -> None:
        if self._columns is not None and self._shown:
            try:
                sys.stderr.write(ERASE_LINE)
                sys.stderr.flush()
            except OSError:
                pass  # the terminal is gone


def exit_on_termination() -> None:
    """Make SIGTERM and SIGHUP raise SystemExit, so that `finally` blocks run as they do after Ctrl-C."""

    def leave(number: int, _: object) -> NoReturn:
        for other in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
