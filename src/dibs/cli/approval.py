"""Work that somebody has to say yes to: submit a draft, approve it, send it back, reject the item.

A draft is submitted by the holder, as its session. Approving and sending back is recorded under the caller's name, as
`identity.actor` finds it, so that an agent does not approve as the person from whose terminal it was started. Rejecting
is both: by the holder of an item in progress, else by whoever decides about one that waits for approval.

A decision is about what was read. `--revision` says what that was; without it, a person at a terminal is shown the item
and decides about that revision.
"""

from __future__ import annotations

from dibs import check
from dibs.cli import identity
from dibs.cli.claim_commands import as_holder, json_object, links_of, tell_end
from dibs.cli.claim_lines import and_now
from dibs.cli.context import Cli
from dibs.cli.items import stdin_text
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import clean
from dibs.errors import Invalid
from dibs.model import IN_PROGRESS, Item
from dibs.rules.fencing import LAPSED

#: The exit code after a question that was answered with no.
NOT_DONE = 1


def submit_options(parser: Parser) -> None:
    parser.item()
    parser.option("--draft", metavar="TEXT", help="what is to be approved (- is stdin)")
    parser.option("--draft-file", metavar="FILE", help="the file it is in")
    parser.option("--note", metavar="TEXT", help="what there is to know about it")
    parser.links_and_cost()
    parser.token()
    parser.request_id()
    parser.identity()


def submit(cli: Cli) -> None:
    asked = cli.args
    draft, token = _draft(cli), identity.own_token(cli)
    links, cost = links_of(asked.link), json_object(asked.cost, "cost")
    ended = as_holder(
        cli,
        lambda session, recover: cli.board.submit(
            asked.item,
            session=session,
            draft=draft,
            token=token,
            note=asked.note,
            links=links,
            cost=cost,
            recover=recover,
            request_id=asked.request_id,
        ),
        lambda ended: ended.run.token,
    )
    tell_end(cli, ended)


def approve_options(parser: Parser) -> None:
    parser.item()
    parser.option("--done", help="the draft is all there was to do")
    parser.option("--comment", metavar="TEXT", help="a word to whoever does it")
    parser.number("--token", help="of the draft that was read: to no other")
    _revision(parser)
    parser.yes()
    parser.request_id()
    parser.actor()


def approve(cli: Cli) -> int:
    asked, revision = cli.args, cli.args.revision
    # A session that is named acts for an agent, which nobody at this terminal need be.
    asks = identity.can_answer(cli) and identity.caller(cli).by_terminal
    if revision is None and asked.token is None and not asked.yes and asks:
        revision = _shown(cli)
        if not identity.agreed(f"approve revision {revision} of {asked.item}"):
            return NOT_DONE
    item = cli.board.approve(
        asked.item,
        comment=asked.comment,
        done=asked.done,
        token=asked.token,
        revision=revision,
        request_id=asked.request_id,
    )
    _tell(cli, "approved", item)
    return 0


def send_back_options(parser: Parser) -> None:
    parser.item()
    parser.option("--comment", metavar="TEXT", help="what to do otherwise", required=True)
    _revision(parser)
    parser.request_id()
    parser.actor()


def send_back(cli: Cli) -> None:
    asked = cli.args
    item = cli.board.send_back(asked.item, comment=asked.comment, revision=asked.revision, request_id=asked.request_id)
    _tell(cli, "sent back", item)


def reject_options(parser: Parser) -> None:
    parser.item()
    parser.reason(required=True)
    parser.token()
    _revision(parser)
    parser.request_id()
    parser.identity()
    parser.option("--actor", metavar="NAME", help="who decides, of a draft (else the agent, else you)")


def reject(cli: Cli) -> None:
    asked = cli.args
    if asked.revision is None and _is_ours(cli):
        item = _reject_as_holder(cli)
    else:
        item = cli.board.reject(asked.item, reason=asked.reason, revision=asked.revision, request_id=asked.request_id)
    _tell(cli, "rejected", item)


def _revision(parser: Parser) -> None:
    parser.number("--revision", help="the one that was read (dibs show), and no other")


def _shown(cli: Cli) -> int:
    """Show the item as `dibs show` does; which revision that was."""
    from dibs.cli.show import in_full

    detail = cli.board.get(cli.args.item)
    cli.say(*in_full(cli, detail))
    return detail.item.revision


def _is_ours(cli: Cli) -> bool:
    """Whether to speak as the holder: a token says so, or this is a session and the item is in progress, or was until
    this session's claim of it lapsed."""
    if identity.own_token(cli) is not None:
        return True
    session = identity.caller(cli).session
    if session is None:
        return False
    detail = cli.board.get(cli.args.item)
    latest = detail.runs[0] if detail.runs else None
    lapsed = latest is not None and latest.session == session and latest.outcome in LAPSED
    return detail.item.status == IN_PROGRESS or lapsed


def _reject_as_holder(cli: Cli) -> Item:
    asked, token = cli.args, identity.own_token(cli)

    def reject(session: str, recover: bool) -> Item:
        held = cli.board.recover(asked.item, session=session, token=token).claim.token if recover else token
        return cli.board.reject(
            asked.item, reason=asked.reason, session=session, token=held, request_id=asked.request_id
        )

    return as_holder(cli, reject, lambda item: item.token)


def _draft(cli: Cli) -> str:
    asked = cli.args
    if (asked.draft is None) == (asked.draft_file is None):
        raise UsageError("the draft comes with --draft TEXT or with --draft-file FILE: one of them", field="draft")
    if asked.draft_file is None:
        return stdin_text() if asked.draft == "-" else str(asked.draft)
    try:
        with open(asked.draft_file, "rb") as file:
            return file.read(check.TEXT_BYTES_MAX + 1).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise Invalid(f"cannot read {asked.draft_file}: {error.strerror}", field="draft_file") from error


def _tell(cli: Cli, what: str, item: Item) -> None:
    if cli.json:
        return cli.answer({"item": item})
    line = f"{cli.paint(what, 'green')} {cli.paint(item.id, 'bold')}  {clean(item.title)}"
    return cli.say(line if item.status == what else f"{line}  {and_now(item, cli.paint)}")
