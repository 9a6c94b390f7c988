"""The results of runs: submit a draft, approve it, send it back, reject the item, annotate a run.

The holder submits a draft, as its session. Approving and sending back are recorded under the name that `identity.actor`
finds, so that an agent does not approve as the person whose terminal it was started from. `reject` is for both: the
holder of an item in progress, and the person who decides about an item that waits for approval.

A decision is about what was read. `--revision` names it; without that option, a person at a terminal is shown the item
and decides about the revision shown.
"""

from __future__ import annotations

from dibs import check
from dibs.cli import identity
from dibs.cli.claim_commands import end_run, with_recovery
from dibs.cli.claim_lines import new_status
from dibs.cli.context import Cli
from dibs.cli.items import stdin_text
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import clean
from dibs.errors import Invalid
from dibs.model import IN_PROGRESS, Item
from dibs.rules.fencing import LAPSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Ended


def submit_options(parser: Parser) -> None:
    parser.item()
    parser.option("--draft", metavar="TEXT", help="the draft (- reads stdin)")
    parser.option("--draft-file", metavar="FILE", help="the file that holds the draft")
    parser.option("--note", metavar="TEXT", help="a note for the person who decides")
    parser.links_and_cost()
    parser.holder()


def submit(cli: Cli) -> None:
    draft = _draft(cli)
    end_run(cli, cli.board.submit, draft=draft, note=cli.args.note)


def approve_options(parser: Parser) -> None:
    parser.item()
    parser.option("--done", help="the draft is the result; mark the item done")
    parser.option("--comment", metavar="TEXT", help="a comment for the next holder")
    parser.number("--token", help="refuse unless the draft is of the run with this token")
    parser.revision()
    parser.yes()
    parser.request_id()
    parser.actor()


def approve(cli: Cli) -> int:
    args, revision = cli.args, cli.args.revision
    # A named session acts for an agent, and the person at this terminal need not be that agent.
    asks = identity.can_confirm(cli) and identity.caller(cli).by_terminal
    if revision is None and args.token is None and not args.yes and asks:
        revision = _show_item(cli)
        if not identity.confirm(f"approve revision {revision} of {args.item}"):
            return identity.NOT_CONFIRMED
    item = cli.board.approve(
        args.item, comment=args.comment, done=args.done, token=args.token, revision=revision, request_id=args.request_id
    )
    _print_decision(cli, "approved", item)
    return 0


def send_back_options(parser: Parser) -> None:
    parser.item()
    parser.option("--comment", metavar="TEXT", help="what to change", required=True)
    parser.revision()
    parser.request_id()
    parser.actor()


def send_back(cli: Cli) -> None:
    args = cli.args
    item = cli.board.send_back(args.item, comment=args.comment, revision=args.revision, request_id=args.request_id)
    _print_decision(cli, "sent back", item)


def reject_options(parser: Parser) -> None:
    parser.item()
    parser.reason(required=True)
    parser.token()
    parser.revision()
    parser.request_id()
    parser.identity()
    parser.option("--actor", metavar="NAME", help="who decides about a draft (default: the agent, you)")


def reject(cli: Cli) -> None:
    args = cli.args
    if args.revision is None and _acts_as_holder(cli):
        item = _reject_as_holder(cli)
    else:
        item = cli.board.reject(args.item, reason=args.reason, revision=args.revision, request_id=args.request_id)
    _print_decision(cli, "rejected", item)


def annotate_options(parser: Parser) -> None:
    parser.item()
    parser.number("--run", help="the token of the run (default: the latest)")
    parser.links_and_cost()
    parser.option(
        "--check", metavar="CHECK", help="a check, as NAME=STATE or NAME=STATE:URL; repeatable", repeated=True
    )
    parser.request_id()
    parser.identity()
    parser.option("--actor", metavar="NAME", help="annotate as this name instead of the session's")


def annotate(cli: Cli) -> None:
    """A session or a named agent annotates the runs of its agent; with `--actor`, or without either, the caller
    annotates any run."""
    args, who, checks = cli.args, identity.caller(cli), _parse_checks(cli.args.check)

    def annotate(session: str | None) -> Ended:
        return cli.board.annotate(
            args.item,
            token=args.run,
            links=dict(args.link),
            checks=checks,
            cost=args.cost,
            session=session,
            agent=None if args.actor is not None else who.agent,
            request_id=args.request_id,
        )

    by_session = args.actor is None and who.session is not None and not who.by_terminal
    annotated = identity.with_known_session(cli, annotate) if by_session else annotate(None)
    run, paint = annotated.run, cli.paint
    token = paint(f"token {run.token}", "dim")
    cli.reply(annotated, f"{paint('annotated', 'green')} {paint(run.item, 'bold')}  {token}")


def _show_item(cli: Cli) -> int:
    """Show the item as `dibs show` does; return the revision shown."""
    from dibs.cli.show import item_lines

    detail = cli.board.get(cli.args.item)
    cli.print(*item_lines(cli, detail))
    return detail.item.revision


def _acts_as_holder(cli: Cli) -> bool:
    """Whether the caller rejects as the holder: a token is given, or the caller has a session and the item is in
    progress, or was until this session's claim lapsed."""
    if identity.claim_token(cli) is not None:
        return True
    session = identity.caller(cli).session
    if session is None:
        return False
    detail = cli.board.get(cli.args.item)
    latest = detail.runs[0] if detail.runs else None
    lapsed = latest is not None and latest.session == session and latest.outcome in LAPSED
    return detail.item.status == IN_PROGRESS or lapsed


def _reject_as_holder(cli: Cli) -> Item:
    args, token = cli.args, identity.claim_token(cli)

    def reject(session: str, recover: bool) -> Item:
        held = cli.board.recover(args.item, session=session, token=token).claim.token if recover else token
        return cli.board.reject(args.item, reason=args.reason, session=session, token=held, request_id=args.request_id)

    return with_recovery(cli, reject, lambda item: item.token)


def _draft(cli: Cli) -> str:
    args = cli.args
    if (args.draft is None) == (args.draft_file is None):
        raise UsageError("give the draft with either --draft TEXT or --draft-file FILE", field="draft")
    if args.draft_file is None:
        return stdin_text() if args.draft == "-" else str(args.draft)
    try:
        with open(args.draft_file, "rb") as file:
            return file.read(check.TEXT_BYTES_MAX + 1).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise Invalid(f"cannot read {args.draft_file}: {error.strerror}", field="draft_file") from error


def _parse_checks(texts: list[str]) -> dict[str, dict[str, str]]:
    checks = {}
    for text in texts:
        name, _, result = text.partition("=")
        state, _, url = result.partition(":")
        if not (name and state):
            raise UsageError(f"--check {text!r}: write it as NAME=STATE or NAME=STATE:URL", field="check")
        checks[name] = {"state": state} | ({"url": url} if url else {})
    return checks


def _print_decision(cli: Cli, decision: str, item: Item) -> None:
    line = f"{cli.paint(decision, 'green')} {cli.paint(item.id, 'bold')}  {clean(item.title)}"
    cli.reply({"item": item}, line if item.status == decision else f"{line}  {new_status(item, cli.paint)}")
