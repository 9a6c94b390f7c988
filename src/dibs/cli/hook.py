"""`dibs hook EVENT`: what the hooks of coding agents call."""

from __future__ import annotations

import sys

from dibs.cli.context import Cli
from dibs.cli.parser import Parser

#: The event that is not a client's: be the keeper of a session.
KEEP = "keep"
#: The event after which the client waits in the background, and the exit code that wakes its agent.
WAKE, WAKEN = "Wake", 2
#: The most that is read of a payload; a larger one is not answered.
BYTES_MAX = 64 << 20


def hook_options(parser: Parser) -> None:
    parser.argument("event", "the event, with its payload on stdin")
    parser.option("--client", metavar="NAME", help="the client (default: told from the payload)")
    parser.option("--session", metavar="ID", help="the session whose keeper to be (EVENT: keep)")


def hook(cli: Cli) -> int:
    """Exits 0, except to wake an idle agent: a hook must not fail the tool of an agent, whatever happens to the
    board."""
    args = cli.args
    try:
        if args.event == KEEP:
            from dibs import check
            from dibs.agents import keeper

            keeper.keep(check.item_id(args.session, "session"))
            return 0
        text = sys.stdin.buffer.read(BYTES_MAX).decode("utf-8", "replace")
        if args.event == WAKE:
            from dibs.agents import wake

            news = wake.wait(text)
            if not news:
                return 0
            sys.stderr.write(f"{news}\n")
            return WAKEN
        from dibs.agents import hook

        answer = hook.run(text, args.event, args.client)
    except Exception:  # whatever it is: see above
        return 0
    if answer:
        sys.stdout.write(answer + "\n")
    return 0
