"""Any program as a worker: `dibs work` runs a command for each item that it claims, `dibs exec` for one named item.
`worker.command` runs the command; `worker.verdict` maps its exit code to the end of the run."""

from __future__ import annotations

from dibs import config, location
from dibs.cli import identity
from dibs.cli.claim_commands import NOTHING
from dibs.cli.context import Cli
from dibs.cli.listing import OPEN
from dibs.cli.parser import Parser, UsageError
from dibs.errors import DibsError
from dibs.model import READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.board import Board
    from dibs.cli.work_output import WorkOutput
    from dibs.worker.command import Command
    from dibs.worker.worktree import Worktrees

DRAIN_SECONDS = 30.0


def work_options(parser: Parser) -> None:
    parser.types_and_projects()
    parser.number("--max", help="work on up to N items at a time (default: 1)", default=1)
    parser.option("--once", help="exit when nothing is ready; exit code 3 if nothing was")
    parser.duration("--interval", "interval_seconds", "poll at this interval instead of waiting for events")
    _timeout_options(parser)
    parser.duration("--drain", "drain_seconds", "when stopped, let commands finish this long (30s)")
    parser.ttl()
    _worktree_options(parser)
    parser.option("--log", metavar="FILE", help="append events to FILE (DIR/: to DIR/agent-NAME.log)")
    parser.option("--agent", metavar="NAME", help="the agent (default: DIBS_AGENT)")
    parser.trailing_command()


def work(cli: Cli) -> int:
    from dibs.worker.worker import Worker, quiet_logger

    args, agent = cli.args, identity.caller(cli).agent
    if agent is None:
        raise UsageError("name the agent: --agent NAME, or: export DIBS_AGENT=NAME", field="agent")
    quiet_logger()
    if args.log is not None:
        _require_writable(args.log, agent)
    output, command = _prepare(cli)
    board = _connect(cli, agent)
    if not args.once:
        output.waits_for = lambda: _waits_for(board, args.type, args.project)
    worker = Worker(
        board,
        agent,
        projects=args.project,
        ttl_seconds=args.ttl,
        drain_seconds=DRAIN_SECONDS if args.drain is None else args.drain,
        tell=output.event,
        log=args.log,
    )
    try:
        worker.handles(*args.type, max_claims=args.max)(command)
        tally = worker.run(once=args.once, interval_seconds=args.interval)
    finally:
        command.close()
        output.close()
        board.close()
    if args.once and not tally:
        cli.notice("nothing to claim right now")
        return NOTHING
    return 0


def _waits_for(board: Board, types: list[str], projects: list[str]) -> str:
    """What has to happen before an idle worker gets an item, in a line."""
    kind = f"of type {' or '.join(types)}" if types else ""
    where = f"of project {' or '.join(projects)}" if projects else ""
    wanted = " ".join(word for word in ("waits for a ready item", kind, where) if word)
    try:
        page = board.page(status=OPEN, type=types, project=projects, limit=1)
    except DibsError as error:
        return error.message
    counts = [f"{number} {status}" for status, number in page.counts["status"].items() if number and status in OPEN]
    if page.counts["status"].get(READY):
        return f"{wanted}; the ready ones are not for this agent now: dibs why ITEM"
    return f"{wanted}; now: {', '.join(counts) or 'no open item'}"


def exec_options(parser: Parser) -> None:
    parser.item()
    parser.duration("--wait", "wait_seconds", "if the item is taken, queue for it this long")
    _timeout_options(parser)
    parser.ttl()
    _worktree_options(parser)
    parser.option("--agent", metavar="NAME", help="the agent (default: DIBS_AGENT, or you)")
    parser.trailing_command()


def exec(cli: Cli) -> int:
    from dibs.worker.handler_loop import CannotBegin

    args, agent = cli.args, identity.agent_or_user(cli)
    if agent is None:
        raise UsageError("name the agent: --agent NAME, or: export DIBS_AGENT=NAME", field="agent")
    output, command = _prepare(cli)
    board = _connect(cli, agent)
    try:
        # A session of its own ends with the command, without ending other claims of the caller.
        with (
            board.session(agent, ttl_seconds=args.ttl) as session,
            session.claim(args.item, wait_seconds=args.wait or 0) as claim,
        ):
            output.event("claimed", claim)
            try:
                verdict = command.run(claim)
            except CannotBegin as error:
                claim.release(error.message)
                raise
            output.event(claim.outcome or "", claim, "" if verdict.verb == "done" else verdict.text)
            return verdict.exit_code
    finally:
        command.close()
        output.close()
        board.close()


def _timeout_options(parser: Parser) -> None:
    parser.duration("--timeout", "timeout_seconds", "end the command after this time")
    parser.option("--on-timeout", metavar="HOW", help="then fail or release the item (default: fail)", default="fail")


def _worktree_options(parser: Parser) -> None:
    parser.option("--worktree", help="run each command in a git worktree of its item")
    parser.option("--base", metavar="REF", help="where new branches start (default: the current branch)")
    parser.option("--keep", help="keep the worktree also when the item is done")
    parser.option("--worktrees-dir", metavar="DIR", help="where worktrees go (default: REPOSITORY.worktrees)")
    parser.number("--worktrees-max", help="the most worktrees in the repository (default: 50)")


def _worktrees(cli: Cli) -> Worktrees | None:
    args = cli.args
    if not args.worktree:
        others = {"--base": args.base, "--keep": args.keep, "--worktrees-dir": args.worktrees_dir}
        others["--worktrees-max"] = args.worktrees_max
        for name, value in others.items():
            if value not in (None, False):
                raise UsageError(f"{name} needs --worktree", field="worktree")
        return None
    from dibs.worker.worktree import WORKTREES_MAX, Worktrees

    most = WORKTREES_MAX if args.worktrees_max is None else args.worktrees_max
    worktrees = Worktrees(".", base=args.base, directory=args.worktrees_dir, worktrees_max=most, keeps=args.keep)
    worktrees.check()
    return worktrees


def _connect(cli: Cli, agent: str) -> Board:
    """Connect for a long-running process with many threads, unlike `cli.board`."""
    from dibs.board import open_board

    return open_board(cli.place, actor=agent)


def _prepare(cli: Cli) -> tuple[WorkOutput, Command]:
    from dibs.cli.work_output import WorkOutput
    from dibs.worker.command import Command

    # Absolute, because the command may change its working directory.
    store = location.absolute(cli.place.url)
    command = Command(
        cli.args.command,
        timeout_seconds=cli.args.timeout,
        on_timeout=cli.args.on_timeout,
        environment={config.ENV_STORE: store},
        worktrees=_worktrees(cli),
    )
    if not command.is_installed:
        problem = f"command not found: {command.arguments[0]!r}"
        raise UsageError(f"{problem}; name a program on the PATH, or give its path", field="command")
    output = WorkOutput(cli)
    command.show = output.line
    return output, command


def _require_writable(log: str, agent: str) -> None:
    """Refuse a log that cannot be written before anything is claimed."""
    from dibs.worker.worker import log_file

    try:
        with open(log_file(log, agent), "a"):
            pass
    except OSError as error:
        raise UsageError(f"cannot write the log {log!r}: {error.strerror}", field="log") from None
