"""Soft claims: `claim --soft` and `release --soft`, for those that hold a lock of their own elsewhere.

A soft claim only tells: `who` shows it, it expires, a heartbeat of its session renews it, and it keeps nobody out.
"""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import UsageError
from dibs.cli.render import clock
from dibs.text import times


def claim(cli: Cli) -> None:
    asked = cli.args
    for given, name in ((asked.wait, "--wait"), (asked.request_id, "--request-id")):
        if given:
            raise UsageError(f"a soft claim waits for nobody and is never refused; leave {name} out", field="soft")
    soft = identity.claiming(
        cli, lambda session: cli.board.soft_claim(asked.item, session=session, ttl_seconds=asked.ttl)
    )
    if cli.json:
        return cli.answer({"soft_claim": soft})
    until = f"for {times.span(soft.ttl_seconds)} until {clock(soft.expires_at)}"
    return cli.say(
        f"{cli.paint('on it', 'green')} {cli.paint(soft.item, 'bold')}  {cli.paint(until, 'dim')}",
        cli.paint("  a soft claim: it shows in who and keeps nobody out", "dim"),
    )


def release(cli: Cli) -> None:
    asked = cli.args
    if asked.park or asked.reason or asked.token is not None:
        raise UsageError("a soft claim has no token and leaves no trace; leave the other options out", field="soft")
    soft = identity.holding(
        cli, lambda session: cli.board.soft_release(asked.item, session=session, request_id=asked.request_id)
    )
    if cli.json:
        return cli.answer({"soft_claim": soft})
    return cli.say(f"{cli.paint('let go', 'yellow')} {cli.paint(soft.item, 'bold')}  its soft claim")
