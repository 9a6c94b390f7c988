"""Any program as a worker: `dibs work` runs a command for each item it is given, `dibs exec` for the one that is named.
How the command is run, and what its exit code means, is told in `command` and `verdict`."""

from __future__ import annotations

from dibs import config, location
from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.work import NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.cli.live import Live
    from dibs.command import Command

DRAIN_SECONDS = 30.0


def work_options(parser: Parser) -> None:
    parser.option("--type", metavar="T", help="only this type; may be repeated", repeated=True)
    parser.option("--project", metavar="P", help="only this project; may be repeated", repeated=True)
    parser.number("--max", help="on up to so many items at a time (1)", default=1)
    parser.option("--once", help="take what is there, then stop; exit 3 if nothing was")
    parser.duration("--interval", "interval_seconds", "look so often, instead of being woken")
    parser.duration("--timeout", "timeout_seconds", "so long a command may take, at most")
    _on_timeout(parser)
    parser.duration("--drain", "drain_seconds", "when stopped, let commands finish so long (30s)")
    parser.ttl()
    parser.option("--log", metavar="FILE", help="log events there (FOLDER/: agent-NAME.log in it)")
    parser.option("--agent", metavar="NAME", help="who works (else DIBS_AGENT)")
    parser.command_line()


def work(cli: Cli) -> int:
    from dibs.worker import Worker

    asked, agent = cli.args, identity.caller(cli).agent
    if agent is None:
        raise UsageError("say who works: --agent NAME, or: export DIBS_AGENT=NAME", field="agent")
    if asked.log is not None:
        _try(asked.log, agent)
    live, command = _shown(cli)
    board = _board(cli, agent)
    worker = Worker(
        board,
        agent,
        projects=asked.project,
        ttl_seconds=asked.ttl,
        drain_seconds=DRAIN_SECONDS if asked.drain is None else asked.drain,
        tell=live.tell,
        log=asked.log,
    )
    try:
        worker.handles(*asked.type, max_claims=asked.max)(command)
        tally = worker.run(once=asked.once, interval_seconds=asked.interval)
    finally:
        command.close()
        live.close()
        board.close()
    if asked.once and not tally:
        cli.remark("nothing to claim right now")
        return NOTHING
    return 0


def exec_options(parser: Parser) -> None:
    parser.item()
    parser.duration("--wait", "wait_seconds", "if somebody has it, queue for it so long")
    parser.duration("--timeout", "timeout_seconds", "so long the command may take, at most")
    _on_timeout(parser)
    parser.ttl()
    parser.option("--agent", metavar="NAME", help="who does it (else DIBS_AGENT, else you)")
    parser.command_line()


def exec(cli: Cli) -> int:
    from dibs.lane import CannotBegin

    asked, agent = cli.args, identity.own_agent(cli)
    if agent is None:
        raise UsageError("say who does it: --agent NAME, or: export DIBS_AGENT=NAME", field="agent")
    live, command = _shown(cli)
    board = _board(cli, agent)
    try:
        # A session of its own: it ends with the command, and takes nothing else along.
        with (
            board.session(agent, ttl_seconds=asked.ttl) as session,
            session.claim(asked.item, wait_seconds=asked.wait or 0) as claim,
        ):
            live.tell("claimed", claim)
            try:
                verdict = command.run(claim)
            except CannotBegin as error:
                claim.release(error.message)
                raise
            live.tell(claim.outcome or "", claim, "" if verdict.verb == "done" else verdict.text)
            return verdict.exit_code
    finally:
        command.close()
        live.close()
        board.close()


def _on_timeout(parser: Parser) -> None:
    parser.option("--on-timeout", metavar="HOW", help="what becomes of it then: fail, release (fail)", default="fail")


def _board(cli: Cli, agent: str) -> Board:
    """For a process that stays, with many threads."""
    from dibs.board import connect

    return connect(cli.args.store, actor=agent)


def _shown(cli: Cli) -> tuple[Live, Command]:
    from dibs.board import default_url
    from dibs.cli.live import Live
    from dibs.command import Command

    # The command may go to another folder.
    store = location.anywhere(cli.args.store or default_url("."))
    command = Command(
        cli.args.command,
        timeout_seconds=cli.args.timeout,
        on_timeout=cli.args.on_timeout,
        environment={config.ENV_STORE: store},
    )
    if not command.is_here:
        right = "name one on the PATH, or by its path"
        raise UsageError(f"there is no command {command.arguments[0]!r} that can be run here: {right}", field="command")
    command.show = (live := Live(cli)).output
    return live, command


def _try(log: str, agent: str) -> None:
    """Told before anything is claimed: a log that cannot be written would be missed later."""
    from dibs.worker import log_file

    try:
        with open(log_file(log, agent), "a"):
            pass
    except OSError as error:
        raise UsageError(f"the log {log!r} cannot be written: {error.strerror}", field="log") from None
