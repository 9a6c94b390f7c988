"""Who acts: the session that a command acts as, the agent of that session, and the name that the history records.

`decide` is the one decision. Its order: a session that is named; the session of the coding agent in whose shell the
command runs; the session of a terminal at which a person types. A controlling terminal alone does not make a person:
every program that was started from a terminal can reach it, and coding agents are.

Sessions come to be on first use, and one that has ended is started again. Nothing here ever records an owner process:
a command that is over in 30 ms owns nothing.
"""

from __future__ import annotations

import os
import sys

from dibs import check, config
from dibs.cli.parser import UsageError
from dibs.errors import Invalid, SessionNotFound, StoreUnusable
from dibs.files import token_file
from dibs.model import PERSON
from dibs.sdk import owner
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from dibs.cli.context import Cli
    from dibs.cli.parser import Args
    from dibs.model import Session

    T = TypeVar("T")

#: The variables in which coding agents tell the commands they run which session runs them, and each agent's name.
CLIENTS = {"CLAUDE_CODE_SESSION_ID": "claude", "CODEX_THREAD_ID": "codex", "COPILOT_AGENT_SESSION_ID": "copilot"}

#: Variables that coding agents set for the commands they run, and each agent's name; those that several agents share
#: come last. What a person's own shell may have too is left out: CURSOR_TRACE_ID and REPL_ID are set in every terminal
#: of their editor, and CODEX_HOME, COPILOT_MODEL and GOOSE_PROVIDER are settings.
MARKERS = {
    "CLAUDECODE": "claude",
    "CODEX_CI": "codex",
    "CODEX_SANDBOX": "codex",
    "CODEX_SANDBOX_NETWORK_DISABLED": "codex",
    "COPILOT_CLI": "copilot",
    "GEMINI_CLI": "gemini",
    "CURSOR_AGENT": "cursor",
    "OPENCODE": "opencode",
    "GOOSE_TERMINAL": "goose",
    "AMP_CURRENT_THREAD_ID": "amp",
    "ANTIGRAVITY_AGENT": "antigravity",
    "AUGMENT_AGENT": "augment",
    "CLINE_ACTIVE": "cline",
    "CRUSH": "crush",
    "PI_CODING_AGENT": "pi",
    "QWEN_CODE": "qwen",
    "TRAE_AI_SHELL_ID": "trae",
    "AI_AGENT": "agent",
    "AGENT": "agent",
}


#: What a shell types to have a session.
START_LINE = "export DIBS_SESSION=$(dibs session start --agent %s)"
#: What is wrong where nobody is known.
NOBODY = f"no session is known here; start one with: {START_LINE % 'NAME'}"


class Caller(Value):
    """Who called this command, as far as its line, its environment and its terminal tell.

    `session` is None where no session is known; `problem` then says why, and what to type. `agent` is the agent that
    is named, `program` the coding agent that runs this command. `person`: there is neither, and a person at a terminal
    typed it. `by_terminal`: the session is that of the terminal.
    """

    session: str | None
    problem: str
    agent: str | None
    program: str | None
    person: bool
    by_terminal: bool


def can_answer(cli: Cli) -> bool:
    """Whether a question would reach a person: a coding agent is not asked, whatever terminal it has, because it would
    wait for an answer that nobody gives."""
    return not cli.json and sys.stdin.isatty() and sys.stderr.isatty() and caller(cli).person


def agreed(question: str) -> bool:
    from dibs.cli.render import clean

    sys.stderr.write(f"{clean(question)}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def decide(args: Args, environment: Mapping[str, str]) -> Caller:
    """Who acts. Variables that are empty count as not set."""
    named = getattr(args, "session", None) or environment.get(config.ENV_SESSION) or None
    agent = getattr(args, "agent", None) or environment.get(config.ENV_AGENT) or None
    clients = [name for name in CLIENTS if environment.get(name)]
    markers = [name for name in MARKERS if environment.get(name)]
    program = CLIENTS[clients[0]] if clients else MARKERS[markers[0]] if markers else None
    person = agent is None and program is None and at_terminal()
    session, problem = named, ""
    if named is not None:
        pass
    elif clients:
        session, problem = _client_session(clients, environment, agent or program)
    elif agent is not None:
        problem = _advice(agent, f"agent {agent} has no session here")
    elif markers:
        unknown = f"{markers[0]} says that a coding agent runs this, and its session is not known"
        problem = f"{_advice(program, unknown)} (if you are a person: unset {' '.join(markers)})"
    else:
        session, problem = _terminal_session() if person else None, NOBODY
    return Caller(
        session=session,
        problem=problem,
        agent=agent,
        program=program,
        person=person,
        by_terminal=person and named is None,
    )


def caller(cli: Cli) -> Caller:
    return decide(cli.args, os.environ)


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
        earlier = _known(cli, session)
        if earlier is None:
            raise
        cli.board.start_session(earlier.agent, id=session, kind=earlier.kind)
    return verb(session)


def own_session(cli: Cli) -> str:
    who = caller(cli)
    if who.session is None:
        raise UsageError(who.problem, field="session")
    return who.session


def own_agent(cli: Cli) -> str | None:
    """The agent, or the person, for whom something new is begun; None if nobody is known."""
    who = caller(cli)
    return who.agent or who.program or (config.user_name() if who.person else None)


def own_token(cli: Cli) -> int | None:
    """The token the line or the environment names; None means the session's own live claim."""
    token: int | None = cli.args.token
    named = os.environ.get(config.ENV_TOKEN)
    if token is not None or not named:
        return token
    if not (named.isascii() and named.isdigit() and len(named) < 20):
        raise UsageError(f"{config.ENV_TOKEN} is {named!r}, which is no token; a whole number is", field="token")
    known = token_file.read(os.environ.get(config.ENV_CLAIM_FILE) or "")
    return known[-1] if int(named) in known else int(named)


def write_down(cli: Cli, token: int) -> None:
    """The claim goes on under this token: for the worker that runs this command, and for what it calls next."""
    path, named = os.environ.get(config.ENV_CLAIM_FILE), os.environ.get(config.ENV_TOKEN)
    if path and named and cli.args.token is None and int(named) in token_file.read(path):
        token_file.append(path, token)


def actor(cli: Cli) -> str | None:
    """The name that the history records for what is done without a session: the one that the line gives, else the
    agent that is named, else that of the session, else the coding agent's; None is the user, who runs this process."""
    who = caller(cli)
    named: str | None = cli.args.actor or who.agent
    if named is None and who.session is not None and not who.by_terminal:
        try:
            session = _known(cli, who.session)
        except StoreUnusable:
            return who.program or who.session  # a damaged board, which `restore` is to replace
        named = None if session is None else session.agent
    return named or who.program


def at_terminal() -> bool:
    """Whether stdin or stderr is this process's controlling terminal; of another one, the foreground is not told."""
    for stream in (0, 2):
        try:
            os.tcgetpgrp(stream)
        except OSError:
            continue
        return True
    return False


def _start(cli: Cli, session: str) -> None:
    """Start the session for the agent that is named, else the one it belonged to before it ended, else the coding
    agent that runs this, else the user."""
    who, kind = caller(cli), "cli"
    agent = who.agent
    if agent is None and (earlier := _known(cli, session)) is not None:
        agent, kind = earlier.agent, earlier.kind
    elif agent is None and who.person:
        agent, kind = config.user_name(), PERSON
    agent = agent or who.program
    if agent is None:
        raise UsageError(
            f"session {session} is new, and its agent is not known; say --agent NAME, or: export DIBS_AGENT=NAME",
            field="agent",
        )
    cli.board.start_session(agent, id=session, kind=kind)


def _known(cli: Cli, session: str) -> Session | None:
    """The session as the board knows it, also one that has ended."""
    try:
        return cli.board.find_session(session)
    except SessionNotFound:
        return None


def _client_session(clients: list[str], environment: Mapping[str, str], agent: str | None) -> tuple[str | None, str]:
    """The session that a coding agent's variable names, or what is wrong with it."""
    if len(clients) > 1:
        return None, f"{' and '.join(clients)} name different sessions; say which one acts, with --session ID"
    try:
        return check.session_id(environment[clients[0]]), ""
    except Invalid as error:
        return None, _advice(agent, f"{clients[0]} cannot be used as a session: {error.message}")


def _advice(agent: str | None, wrong: str) -> str:
    """What is wrong, and the line to type; a name that would not do in that line is what is wrong then."""
    try:
        return f"{wrong}; start one with: {START_LINE % check.agent_name(agent)}"
    except Invalid as error:
        return error.message


def _terminal_session() -> str | None:
    """The id of this terminal's session, made from the leader of its processes; None where the leader lives in another
    pid namespace."""
    leader = os.getsid(0)
    if leader == 0:
        return None
    from zlib import crc32

    facts: tuple[object, ...] = (os.uname().nodename,)
    try:
        process = owner.of(leader)
        facts += (process.boot_id, process.pid_namespace, process.start_time)
    except Invalid:
        pass  # no /proc here: the host and the leader's pid have to do
    return f"tty-{leader}-{crc32(repr(facts).encode()):08x}"
