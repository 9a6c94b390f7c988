"""`dibs demo`: a fleet on a temporary board, as a story in the terminal, recorded, or live on the dashboard.

Server and workers are processes of their own, and the board is real. All of them end with the demo, however it ends.
"""

from __future__ import annotations

from dibs import check
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError

AGENTS, AGENTS_MIN, AGENTS_MAX = 12, 5, 200
SECONDS_MAX = 7 * 86400.0


def demo_options(parser: Parser) -> None:
    parser.option("--open", help="show a fleet live on the dashboard, until Ctrl-C")
    parser.number("--agents", help=f"with --open: how many sessions work (default: {AGENTS})")
    parser.duration("--for", "for", "with --open: end after this time")
    parser.option("--record", metavar="FILE", help="also write the story as an animated SVG")


def demo(cli: Cli) -> int:
    from dibs.cli.wait import exit_on_termination

    args = cli.args
    given = {"--agents": args.agents, "--for": getattr(args, "for")}
    for name, value in given.items():
        if value is not None and not args.open:
            raise UsageError(f"{name} is for a fleet on the dashboard; write dibs demo --open {name} ...", field="open")
    if args.open and args.record is not None:
        raise UsageError("--record is for the story in the terminal; leave --open out", field="record")
    exit_on_termination()
    if args.open:
        from dibs.cli.demo import live

        agents = check.whole(AGENTS if args.agents is None else args.agents, "agents", low=AGENTS_MIN, high=AGENTS_MAX)
        seconds = check.number(given["--for"], "for", low=1, high=SECONDS_MAX) if given["--for"] is not None else None
        return live.show(cli, agents, seconds)
    from dibs.cli.demo import story

    return story.show(cli, args.record)
