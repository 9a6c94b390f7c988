"""`dibs mcp`: the tools of the board for a model's client, on stdio; and `dibs prime`, the same knowledge as text."""

from __future__ import annotations

import os

from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.text import prime as guide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.mcp.local import LocalTools


def mcp_options(parser: Parser) -> None:
    parser.identity()


def mcp(cli: Cli) -> None:
    """Serve until the client closes the connection. A terminal's session is a person's, and not the client's."""
    from dibs.cli.wait import exit_on_termination
    from dibs.mcp.stdio import StdioServer

    who, client_pid = identity.caller(cli), os.getppid()

    def make_tools() -> LocalTools:
        from dibs.board import connect
        from dibs.mcp.local import LocalTools

        return LocalTools(
            lambda: connect(cli.args.store),
            session=None if who.by_terminal else who.session,
            agent=who.agent or who.program,
            client_pid=client_pid,
        )

    exit_on_termination()
    # The streams belong to the protocol alone: what a program that a store runs reads or prints is no message.
    streams = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    StdioServer(make_tools, *streams).run()


def prime(cli: Cli) -> None:
    cli.reply({"prime": guide.TEXT}, *guide.TEXT.splitlines())
