"""Who acts: the session that a command acts as, the agent of that session, and the name that the history records.

`identify` decides, in this order: a session that is named; the session of the coding agent in whose shell the command
runs; the session of the terminal at which a person types. If one agent runs inside another, a command inherits the
variables of both, and acts as the inner one, if the hooks of that one are there to tell. A controlling terminal alone
does not prove a person: every program that was started from a terminal has it, coding agents included.

Sessions are started on first use, and an ended one is started again. A command that runs for 30 ms owns nothing: the
owner process that is recorded for a coding agent's session is the agent's own, if that is above this command.
"""

from __future__ import annotations

import os
import sys

from dibs import check, config
from dibs.cli.parser import UsageError
from dibs.errors import Invalid, SessionNotFound, StoreUnusable
from dibs.model import PERSON
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from dibs.cli.context import Cli
    from dibs.cli.parser import Args
    from dibs.errors import DibsError
    from dibs.model import Session

    T = TypeVar("T")

CLIENTS = config.CLIENT_SESSIONS

#: Environment variables that coding agents set for the commands they run, and each agent's name; variables that several
#: agents share come last. Variables that a person's own shell may have are not listed: CURSOR_TRACE_ID and REPL_ID are
#: set in every terminal of their editor, and CODEX_HOME, COPILOT_MODEL and GOOSE_PROVIDER are settings.
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

#: The shell line that starts a session.
START_LINE = "export DIBS_SESSION=$(dibs session start --agent %s)"
#: What a program writes that keeps no environment between its commands.
STATELESS = "or add to every command: --session ID --agent %s"
NO_SESSION = f"no session is known here; start one with: {START_LINE % 'NAME'}; {STATELESS % 'NAME'}"
#: The exit code after a question was answered with no.
NOT_CONFIRMED = 1


class Caller(Value):
    """Who called this command, as far as its arguments, its environment and its terminal show.

    `session` is None where no session is known; `problem` then explains why, and what to type. `agent` is the agent
    that was named, `program` the coding agent that runs the command. `person`: neither is there, and the command was
    typed at a terminal. `by_terminal`: the session is the terminal's.
    """

    session: str | None
    problem: str
    agent: str | None
    program: str | None
    person: bool
    by_terminal: bool


def identify(args: Args, environment: Mapping[str, str]) -> Caller:
    """Decide who acts. Empty variables count as unset."""
    named = getattr(args, "session", None) or None
    agent = getattr(args, "agent", None) or None
    clients = [name for name in CLIENTS if environment.get(name)]
    if named is None and (inner := _inner_client(clients, environment)) is not None:
        clients = [inner]  # DIBS_SESSION and DIBS_AGENT are those of an agent around it
    else:
        named = named or environment.get(config.ENV_SESSION) or None
        agent = agent or environment.get(config.ENV_AGENT) or None
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
        cause = f"{markers[0]} shows that a coding agent runs this command, and its session is not known"
        problem = f"{_advice(program, cause)} (if you are a person: unset {' '.join(markers)})"
    else:
        session, problem = _terminal_session() if person else None, NO_SESSION
    return Caller(
        session=session,
        problem=problem,
        agent=agent,
        program=program,
        person=person,
        by_terminal=person and named is None,
    )


def caller(cli: Cli) -> Caller:
    return identify(cli.args, os.environ)


def can_confirm(cli: Cli) -> bool:
    """Whether a question would reach a person. A coding agent is never asked, even at a terminal: it would wait for an
    answer for ever."""
    return not cli.json and sys.stdin.isatty() and sys.stderr.isatty() and caller(cli).person


def confirm(question: str) -> bool:
    from dibs.cli.render import clean

    sys.stderr.write(f"{clean(question)}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def with_session(cli: Cli, verb: Callable[[str], T]) -> T:
    """Call the verb with the caller's session; if the board has no such live session, start it first."""
    session = require_session(cli)
    try:
        return verb(session)
    except SessionNotFound:
        _start(cli, session)
    return verb(session)


def with_known_session(cli: Cli, verb: Callable[[str], T]) -> T:
    """Call the verb with the caller's session; if that has ended, start it again. A session that the board never knew
    holds nothing, so it is not started."""
    session = require_session(cli)
    try:
        return verb(session)
    except SessionNotFound:
        earlier = _find_session(cli, session)
        if earlier is None:
            raise
        cli.board.start_session(earlier.agent, id=session, kind=earlier.kind)
    return verb(session)


def require_session(cli: Cli) -> str:
    who = caller(cli)
    if who.session is None:
        raise UsageError(who.problem, field="session")
    return who.session


def agent_or_user(cli: Cli) -> str | None:
    """The agent, or else the user, for whom a session starts; None if neither is known."""
    who = caller(cli)
    return who.agent or who.program or (config.user_name() if who.person else None)


def claim_token(cli: Cli) -> int | None:
    """The token from the arguments or the environment; None means the session's own live claim."""
    token: int | None = cli.args.token
    return environment_token() if token is None else token


def environment_token() -> int | None:
    """The token that a worker gave the command that runs this one, or the token under which the worker recovered the
    claim since."""
    named = os.environ.get(config.ENV_TOKEN)
    if not named:
        return None
    if not (named.isascii() and named.isdigit() and len(named) < 20):
        raise UsageError(f"{config.ENV_TOKEN} is {named!r}; a token is a whole number", field="token")
    from dibs.system import token_file

    known = token_file.read(os.environ.get(config.ENV_CLAIM_FILE) or "")
    return known[-1] if int(named) in known else int(named)


def record_token(cli: Cli, token: int) -> None:
    """Record a recovered claim's new token, for the worker that runs this command and for later commands."""
    path, named = os.environ.get(config.ENV_CLAIM_FILE), os.environ.get(config.ENV_TOKEN)
    if path and named and cli.args.token is None:
        from dibs.system import token_file

        if int(named) in token_file.read(path):
            token_file.append(path, token)


def lost_token(cli: Cli) -> int | None:
    """The token of the session's lost claim of the item that the command names, if hooks of a coding agent have noted
    the loss: see `agents.state`."""
    if not os.path.isdir(config.agents_folder()):
        return None
    session = caller(cli).session
    if session is None or not has_state(session):
        return None
    from dibs.agents import state

    return state.State(session).lost_token(cli.args.item)


def acknowledge(cli: Cli, lost: int | None, refusal: DibsError | None) -> None:
    """The board has answered a command about an item, so that hooks stop denying tools because of its loss: of the
    token that was known to be lost when the command began, or of the claim that the refusal is about. Of a later loss,
    the answer may know nothing."""
    session = caller(cli).session
    if session is not None and has_state(session):
        from dibs.agents import look

        look.note_answer(cli.board, session, cli.args.item, lost, refusal)


def knows_end(cli: Cli, item: str, token: int) -> None:
    """The session knows how its claim of the item under this token ended, and those before: hooks of a coding agent do
    not report it."""
    session = caller(cli).session
    if session is not None and has_state(session):
        from dibs.agents import state

        state.State(session).answer_claim(item, token)
        state.answered(session, item, token)


def has_state(session: str) -> bool:
    """Whether hooks of a coding agent look after this session. An id with a slash names no folder there."""
    return "/" not in session and os.path.isdir(os.path.join(config.agents_folder(), session))


def actor(cli: Cli) -> str | None:
    """The name that the history records for an act without a session: `--actor`, else the named agent, else the
    session's agent, else the coding agent. None means the user of this process."""
    who = caller(cli)
    named: str | None = cli.args.actor or who.agent
    if named is None and who.session is not None and not who.by_terminal:
        try:
            session = _find_session(cli, who.session)
        except StoreUnusable:
            return who.program or who.session  # `restore` replaces a damaged board, which cannot be read
        named = None if session is None else session.agent
    return named or who.program


def at_terminal() -> bool:
    """Whether stdin or stderr is this process's controlling terminal; tcgetpgrp fails on any other."""
    for stream in (0, 2):
        try:
            os.tcgetpgrp(stream)
        except OSError:
            continue
        return True
    return False


def _start(cli: Cli, session: str) -> None:
    """Start the session for the named agent, else for its agent before it ended, else for the user, else for the
    coding agent."""
    who, kind = caller(cli), "cli"
    agent = who.agent
    if agent is None and (earlier := _find_session(cli, session)) is not None:
        agent, kind = earlier.agent, earlier.kind
    elif agent is None and who.person:
        agent, kind = config.user_name(), PERSON
    agent = agent or who.program
    given: dict[str, Any] = {}
    if session in (os.environ.get(name) for name in CLIENTS) or has_state(session):
        from dibs.agents import process

        given = process.of_session(session, os.environ, CLIENTS)
        known, kind = given.pop("agent", None), given.pop("kind", kind)
        agent = who.agent or known or agent
    if agent is None:
        problem = f"session {session} is new, and its agent is not known"
        raise UsageError(f"{problem}; name it with --agent NAME, or: export DIBS_AGENT=NAME", field="agent")
    cli.board.start_session(agent, id=session, kind=kind, **given)


def _find_session(cli: Cli, session: str) -> Session | None:
    """The session, live or ended; None if the board never knew it."""
    try:
        return cli.board.find_session(session)
    except SessionNotFound:
        return None


def _inner_client(clients: list[str], environment: Mapping[str, str]) -> str | None:
    """Of several sessions in the environment, the variable of the one whose agent runs inside all others: its hooks
    have noted that the agent inherited them. None if there is no such session, as below a worker of dibs, which sets
    `DIBS_SESSION` itself."""
    sessions = {environment[name] for name in (config.ENV_SESSION, *clients) if environment.get(name)}
    for name in clients if len(sessions) > 1 else ():
        session = environment[name]
        if has_state(session):
            from dibs.agents import state

            record = state.State(session).record()
            if record is not None and sessions - {session} <= set(record.outer):
                return name
    return None


def _client_session(clients: list[str], environment: Mapping[str, str], agent: str | None) -> tuple[str | None, str]:
    """The session that a coding agent's variable names, or the problem with the variable."""
    if len(clients) > 1:
        return None, f"{' and '.join(clients)} name different sessions; choose one with --session ID"
    try:
        return check.session_id(environment[clients[0]]), ""
    except Invalid as error:
        return None, _advice(agent, f"{clients[0]} cannot be used as a session: {error.message}")


def _advice(agent: str | None, problem: str) -> str:
    """The problem, and the line that starts a session; for an invalid agent name, why the name is invalid."""
    try:
        name = check.agent_name(agent)
        return f"{problem}; start one with: {START_LINE % name}; {STATELESS % name}"
    except Invalid as error:
        return error.message


def _terminal_session() -> str | None:
    """The session id of this terminal, derived from its session leader; None if the leader is in another pid
    namespace."""
    leader = os.getsid(0)
    if leader == 0:
        return None
    from zlib import crc32

    from dibs.system import owner

    facts: tuple[object, ...] = (os.uname().nodename,)
    try:
        process = owner.of(leader)
        facts += (process.boot_id, process.pid_namespace, process.start_time)
    except Invalid:
        pass  # without /proc, the host name and the leader's pid have to do
    return f"tty-{leader}-{crc32(repr(facts).encode()):08x}"
