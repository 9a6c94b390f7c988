"""`dibs guard`: git hooks that name the claim of each commit, and refuse the commits of lost claims."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, nullcontext

from dibs import config, location
from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import number_of
from dibs.errors import DibsError, Invalid, NotClaimOwner, StoreUnavailable
from dibs.model import PERSON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dibs.board import Board
    from dibs.guard.git import Revisions
    from dibs.guard.trailers import Trailer
    from dibs.guard.verify import Verdict

#: How long a hook waits for one answer of the board; a request that is lost is repeated twice. And for all answers.
ANSWER_SECONDS = {"pre-push": 3.0, "pre-receive": 10.0}
ANSWER_SECONDS_AT_COMMIT = 1.0
HOOK_SECONDS = 30.0
REFUSED = NotClaimOwner.exit_code
#: The most that is read of the lines that git feeds a hook.
STDIN_BYTES_MAX = 64 << 20


class LostClaims(NotClaimOwner):
    """Commits of claims that were lost; their facts are those of the verdict."""


class Unfinished(StoreUnavailable):
    """Some commits could not be judged, and none of the others is refused."""


def guard_install_options(parser: Parser) -> None:
    parser.option("--pre-commit", help="also refuse commits of files that others reserve")


def guard_install(cli: Cli) -> None:
    from dibs.guard import install

    variables = (config.ENV_SESSION, config.ENV_TOKEN, *identity.CLIENTS)
    done = install.install(pre_commit=cli.args.pre_commit, store=cli.args.store, variables=variables)
    lines = [f"installed {', '.join(done.hooks)} in {done.folder}"]
    if done.former != done.folder:
        lines.append(f"the hooks in {done.former} run first")
    cli.reply(done, *lines, "remove them with: dibs guard remove")
    if not (cli.json or install.names_board() or os.environ.get(config.ENV_STORE)):
        _warn_without_board(cli, is_hub="pre-receive" in done.hooks)


def _warn_without_board(cli: Cli, *, is_hub: bool) -> None:
    """Hooks that find no board are installed all the same: the board may be made later."""
    try:
        location.find(".")
    except DibsError as error:
        cli.notice(
            "no board is found from here, so a push of commits that name a claim is refused; "
            "name the board with: dibs guard install --store URL"
            if is_hub
            else f"the hooks check nothing yet: {error.message}"
        )


def guard_remove(cli: Cli) -> None:
    from dibs.guard import install

    done = install.remove()
    cli.reply(done, f"removed {', '.join(done.hooks)}" if done.hooks else "no hook of dibs is installed here")
    for name in done.left:
        cli.notice(f"{name} was changed or replaced since, and stays; a hook before it would be {name}.before-dibs")


def guard_verify_options(parser: Parser) -> None:
    parser.option("--range", metavar="A..B", help="commits to check; repeatable", repeated=True, required=True)


def guard_verify(cli: Cli) -> None:
    """Exits 75 if the board or git cannot be asked: the commits may be those of a lost claim."""
    from dibs.guard import git, verify

    try:
        ranges = [git.resolve(one) for one in cli.args.range]
        verdict = verify.verify(lambda: nullcontext(cli.board), ranges)
    except git.NotARange:
        raise
    except DibsError as error:
        raise _cannot_know(error) from error
    _warn_of_unknown(cli, verdict)
    if verdict.refused:
        raise _lost(verdict)
    if verdict.problem is not None:
        raise _cannot_know(Unfinished(verdict.problem))
    told = {"claims": verdict.claims, "refused": [], "unknown": verdict.unknown}
    cli.reply(told, f"{number_of(verdict.claims, 'commit')} with a claim, none refused")


def guard_hook_options(parser: Parser) -> None:
    parser.argument("hook", "the name of the hook; its arguments follow --")
    for name in ("first", "second", "third"):
        parser.argument(name, f"the {name} argument of the hook", optional=True)


def guard_hook(cli: Cli) -> int:
    """Exits 4 to refuse. Without an answer of the board, and after any other error, a commit and a push from here pass
    with a warning."""
    hook: Callable[[Cli], int] | None = HOOKS.get(cli.args.hook)
    if hook is None:
        raise UsageError(f"unknown hook {cli.args.hook!r}; choose one of {', '.join(HOOKS)}", field="hook")
    try:
        return hook(cli)
    except LostClaims:
        raise
    except Exception as error:
        # A mistake of the guard itself is one line as well: git's user cannot mend it.
        known = error if isinstance(error, DibsError) else Invalid(f"{type(error).__name__}: {error}")
        if cli.args.hook == "pre-receive":
            raise _cannot_know(known) from error
        what = "not everything" if isinstance(known, Unfinished) else "nothing"
        cli.notice(f"guard: {what} was checked: {known.message}")
        return 0


def _prepare_commit_msg(cli: Cli) -> int:
    from dibs.guard import hooks

    if cli.args.second in hooks.GIVEN:
        hooks.add_trailers(cli.args.first, lambda files: _runs(cli, files), cli.args.second)
    return 0


def _commit_msg(cli: Cli) -> int:
    from dibs.guard import hooks

    hooks.add_trailers(cli.args.first, lambda files: _runs(cli, files), hooks.FINAL)
    return 0


def _applypatch_msg(cli: Cli) -> int:
    from dibs.guard import hooks

    hooks.add_trailers(cli.args.first, lambda files: _runs(cli, files), hooks.PATCH)
    return 0


def _pre_commit(cli: Cli) -> int:
    from dibs.guard import hooks

    found = hooks.reserved_files(lambda: _board(cli), identity.caller(cli).session)
    for one in found:
        cli.notice(f"guard: {one.agent} (session {one.session}) reserves {one.path} for {one.item}")
    if found:
        cli.notice("guard: the commit is refused; leave these files to their holders, or ask a person")
    return REFUSED if found else 0


def _pre_push(cli: Cli) -> int:
    from dibs.guard import hooks

    ranges = hooks.pushed(_stdin(), cli.args.first, cli.args.second or "")
    return _judge(cli, ranges, os.environ.get(config.ENV_GUARD_PASS, ""), by_agent=_is_agent)


def _pre_receive(cli: Cli) -> int:
    from dibs.guard import hooks

    ranges = hooks.received(_stdin())
    # Whoever pushes is not known here: the option is recorded under the name of this process's user.
    return _judge(cli, ranges, hooks.reason_in_push_options(os.environ))


HOOKS: dict[str, Callable[[Cli], int]] = {
    "prepare-commit-msg": _prepare_commit_msg,
    "commit-msg": _commit_msg,
    "applypatch-msg": _applypatch_msg,
    "pre-commit": _pre_commit,
    "pre-push": _pre_push,
    "pre-receive": _pre_receive,
}


def _judge(
    cli: Cli, ranges: Sequence[Revisions], reason: str, by_agent: Callable[[Cli], bool] = lambda _: False
) -> int:
    from dibs.guard import hooks, verify

    if not ranges:
        return 0
    verdict = verify.verify(lambda: _board(cli), ranges)
    _warn_of_unknown(cli, verdict)
    if not verdict.refused:
        if verdict.problem is not None:
            raise Unfinished(verdict.problem)
        return 0
    if not reason.strip():
        raise _lost(verdict)
    if by_agent(cli):
        raise LostClaims(f"only a person may let lost commits pass; {_lost(verdict).message}")
    if verdict.problem is not None:
        raise LostClaims(f"not everything was checked ({verdict.problem}); {_lost(verdict).message}")
    try:
        with _board(cli) as board:
            hooks.record_pass(board, verdict.refused, reason.strip())
    except DibsError as error:
        raise LostClaims(f"the pass cannot be recorded ({error.message}); {_lost(verdict).message}") from error
    cli.notice(f"guard: {number_of(len(verdict.refused), 'lost commit')} passed, as {board.actor} decided")
    return 0


def _lost(verdict: Verdict) -> LostClaims:
    first, more = verdict.refused[0], len(verdict.refused) - 1
    rest = f" (and {number_of(more, 'more commit')})" if more else ""
    advice = f"stop working on {first.item}; its new holder can take this work over with a commit on top"
    facts = {"refused": [one.as_dict() for one in verdict.refused], "unknown": list(verdict.unknown)}
    return LostClaims(f"guard: {first.describe()}{rest}; {advice}", **facts)


def _cannot_know(error: DibsError) -> StoreUnavailable:
    """The refusal if the board cannot be asked, whatever the reason."""
    return StoreUnavailable(f"guard: the commits cannot be verified: {error.message}", cause=error.code)


def _warn_of_unknown(cli: Cli, verdict: Verdict) -> None:
    if verdict.unknown and not cli.json:
        names = ", ".join(verdict.unknown[:5]) + (", ..." if len(verdict.unknown) > 5 else "")
        cli.notice(f"guard: this board does not know {names}; such commits are not checked")


def _runs(cli: Cli, files: Sequence[str]) -> tuple[Trailer, ...]:
    """The runs that the commit is made for: of the worker that runs this command, else of the caller's session."""
    from dibs.guard import authorship
    from dibs.guard.trailers import Trailer

    token = identity.environment_token()
    if token is not None:
        from dibs.worker.command import ENV_ITEM

        item = os.environ.get(ENV_ITEM)
        if item:
            return (Trailer(item=item, token=token),)
    session = identity.caller(cli).session
    if session is None:
        return ()
    with _board(cli) as board:
        return authorship.runs_of_commit(board, session, files)


def _is_agent(cli: Cli) -> bool:
    """Whether a coding agent pushes, or a session that is not a person's."""
    who = identity.caller(cli)
    if who.agent is not None or who.program is not None:
        return True
    if who.session is None or who.by_terminal:
        return False
    try:
        with _board(cli) as board:
            return board.find_session(who.session).kind != PERSON
    except DibsError:
        return True


@contextmanager
def _board(cli: Cli) -> Iterator[Board]:
    """The board for a bounded time. What git does before and after takes as long as it takes."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, HOOK_SECONDS)
    try:
        yield cli.board_within(ANSWER_SECONDS.get(cli.args.hook, ANSWER_SECONDS_AT_COMMIT))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _give_up(*_: object) -> None:
    raise StoreUnavailable(f"the board did not answer within {HOOK_SECONDS:g} s")


def _stdin() -> str:
    return sys.stdin.buffer.read(STDIN_BYTES_MAX).decode("utf-8", "surrogateescape")
