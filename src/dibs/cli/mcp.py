"""`dibs mcp`: the tools of the board for a model's client, on stdio; and `dibs prime`, the same knowledge as text."""

from __future__ import annotations

import os

from dibs import config
from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.errors import Invalid, NotTrusted
from dibs.text import prime as guide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board
    from dibs.errors import DibsError
    from dibs.mcp.local import Hooks, LocalTools


def mcp_options(parser: Parser) -> None:
    parser.identity()


def mcp(cli: Cli) -> None:
    """Serve until the client closes the connection. A terminal's session is a person's, and not the client's."""
    from dibs.cli.wait import exit_on_termination
    from dibs.mcp.stdio import StdioServer

    who, client_pid = identity.caller(cli), os.getppid()

    def make_tools() -> LocalTools:
        from dibs import location
        from dibs.board import open_board
        from dibs.mcp.local import LocalTools

        return LocalTools(
            lambda: open_board(location.look(".", cli.args.store, tell=cli.notice_once)),
            _hooks(),
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
    StdioServer(make_tools, lambda: _has_board(cli), *streams).run()


def _has_board(cli: Cli) -> bool:
    """Whether there is a board, as far as this shows without opening it. Calls say what is wrong with one that is not
    trusted."""
    if cli.args.store or os.environ.get(config.ENV_STORE):
        return True
    from dibs import location

    try:
        location.find(".")
    except (Invalid, OSError):
        return False
    except NotTrusted:
        pass
    return True


def _hooks() -> Hooks:
    """What hooks of coding agents know, from the state folders of their sessions: see `agents.state`. The modules for
    that are imported when there is such a folder."""
    from dibs.mcp.local import Hooks

    class StateFolders(Hooks):
        def tend(self, session: str) -> bool:
            return identity.has_state(session)

        def has_agent_above(self, session: str) -> bool:
            if not identity.has_state(session):
                return False
            from dibs.agents import process, state

            record = state.State(session).record()
            return record is not None and process.is_above(record.owners)

        def start_fields(self, session: str) -> dict[str, Any]:
            if not identity.has_state(session):
                return {}
            from dibs.agents import state

            known = state.State(session).record()
            return {} if known is None else {"agent": known.agent, "owner": known.owner, "parent": known.parent}

        def answered(self, board: Board, session: str, item: str, refusal: DibsError | None) -> None:
            if identity.has_state(session):
                from dibs.agents import look, state

                look.note_answer(board, session, item, state.State(session).lost_token(item), refusal)

        def handed(self, session: str, item: str, token: int) -> None:
            if identity.has_state(session):
                from dibs.agents import state

                state.State(session).answer_claim(item, token)

    return StateFolders()


def prime(cli: Cli) -> None:
    cli.reply({"prime": guide.TEXT}, *guide.TEXT.splitlines())
