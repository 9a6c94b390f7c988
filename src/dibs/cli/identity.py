"""Who acts: the session a command acts as, and the agent that session is of.

A session is named by `--session` or `DIBS_SESSION`; at a terminal it is that terminal's, told by the leader of its
session, so that every command typed there is the same one's. Off a terminal there is none. Sessions come to be on
first use, and one that has ended is started again. Nothing here ever records an owner process: a command that is
over in 30 ms owns nothing.
"""

from __future__ import annotations

import os

from dibs import config, owner, tokens
from dibs.cli.context import Cli, named_agent
from dibs.cli.parser import UsageError
from dibs.errors import Invalid, SessionNotFound
from dibs.model import PERSON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from dibs.model import Session

    T = TypeVar("T")

START_LINE = "export DIBS_SESSION=$(dibs session start --agent NAME)"


def claiming(cli: Cli, verb: Callable[[str], T]) -> T:
    """Call a verb as this session, which comes to be if it is not there yet."""
    session = own_session(cli)
    try:
        return verb(session)
    except SessionNotFound:
        _start(cli, session)
    return verb(session)


def holding(cli: Cli, verb: Callable[[str], T]) -> T:
    """Call a verb as this session; one that never was holds nothing, so only an ended one is started for it."""
    session = own_session(cli)
    try:
        return verb(session)
    except SessionNotFound:
        earlier = _earlier(cli, session)
        if earlier is None:
            raise
        cli.board.start_session(earlier.agent, id=session, kind=earlier.kind)
    return verb(session)


def known_session(cli: Cli) -> str | None:
    """The session that the line, the environment or the terminal tells; None where none of them does."""
    return _named_session(cli) or _terminal_session()


def own_session(cli: Cli) -> str:
    session = known_session(cli)
    if session is None:
        raise UsageError(f"no session is known here; start one with: {START_LINE}", field="session")
    return session


def own_token(cli: Cli) -> int | None:
    """The token the line or the environment names; None means the session's own live claim."""
    token: int | None = cli.args.token
    named = os.environ.get(config.ENV_TOKEN)
    if token is not None or not named:
        return token
    if not (named.isascii() and named.isdigit() and len(named) < 20):
        raise UsageError(f"{config.ENV_TOKEN} is {named!r}, which is no token; a whole number is", field="token")
    known = tokens.written(os.environ.get(config.ENV_CLAIM_FILE) or "")
    return known[-1] if int(named) in known else int(named)


def write_down(cli: Cli, token: int) -> None:
    """The claim goes on under this token: for the worker that runs this command, and for what it calls next."""
    path, named = os.environ.get(config.ENV_CLAIM_FILE), os.environ.get(config.ENV_TOKEN)
    if path and named and cli.args.token is None and int(named) in tokens.written(path):
        tokens.write_down(path, token)


def at_terminal() -> bool:
    """Whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _start(cli: Cli, session: str) -> None:
    """Start the session as the agent that is named, else the one it was of before it ended, else the user."""
    agent, kind = named_agent(cli.args), "cli"
    if agent is None and _named_session(cli) and (earlier := _earlier(cli, session)) is not None:
        agent, kind = earlier.agent, earlier.kind
    elif agent is None and at_terminal():
        agent, kind = config.user_name(), PERSON
    if agent is None:
        raise UsageError(
            f"session {session} is new and nobody's; say whose it is with --agent NAME, or: export DIBS_AGENT=NAME",
            field="agent",
        )
    cli.board.start_session(agent, id=session, kind=kind)


def _named_session(cli: Cli) -> str | None:
    return cli.args.session or os.environ.get(config.ENV_SESSION) or None


def _earlier(cli: Cli, session: str) -> Session | None:
    """The session as it was before it ended, if it ever was."""
    from dibs.check import LIST_MAX

    views = cli.board.sessions(ended=True, limit=LIST_MAX)
    return next((view.session for view in views if view.session.id == session), None)


def _terminal_session() -> str | None:
    """The id of this terminal's session; None off a terminal, and where its leader lives in another pid namespace."""
    leader = os.getsid(0)
    if leader == 0 or not at_terminal():
        return None
    from zlib import crc32

    facts: tuple[object, ...] = (os.uname().nodename,)
    try:
        process = owner.of(leader)
        facts += (process.boot_id, process.pid_namespace, process.start_time)
    except Invalid:
        pass  # no /proc here: the host and the leader's pid have to do
    return f"tty-{leader}-{crc32(repr(facts).encode()):08x}"
