"""Changing what is on the board from outside a claim: edit, cancel, retry, force-release."""

from __future__ import annotations

from dibs.cli.context import Cli
from dibs.cli.items import content, content_options
from dibs.cli.parser import Parser
from dibs.cli.render import clean
from dibs.cli.telling import kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Item


def edit_options(parser: Parser) -> None:
    parser.item()
    parser.option("--title", metavar="TEXT", help="what there is to do, in one line")
    content_options(parser)
    parser.request_id()
    parser.actor()


def edit(cli: Cli) -> None:
    """Change what was named; an empty `--phase` or `--label` takes away what was there."""
    asked, changes = cli.args, content(cli)
    if asked.title is not None:
        changes["title"] = asked.title
    if changes.get("phase") == "":
        changes["phase"] = None
    item = cli.board.edit(asked.item, request_id=asked.request_id, **changes)
    _tell(cli, "edited", item, f"{clean(item.title)}  {cli.paint(kind_of(item), 'dim')}")


def cancel_options(parser: Parser) -> None:
    _by_someone(parser)


def cancel(cli: Cli) -> None:
    asked = cli.args
    item = cli.board.cancel(asked.item, reason=asked.reason, request_id=asked.request_id)
    _tell(cli, "cancelled", item, clean(item.title))


def retry_options(parser: Parser) -> None:
    _by_someone(parser)


def retry(cli: Cli) -> None:
    asked = cli.args
    item = cli.board.retry(asked.item, reason=asked.reason, request_id=asked.request_id)
    _tell(cli, "ready again", item, clean(item.title))


def force_release_options(parser: Parser) -> None:
    parser.item()
    parser.reason(required=True)
    parser.number("--token", help="only if the item is held under this token")
    parser.request_id()
    parser.actor()


def force_release(cli: Cli) -> None:
    asked = cli.args
    ended = cli.board.force_release(asked.item, reason=asked.reason, token=asked.token, request_id=asked.request_id)
    if cli.json:
        return cli.answer(ended)
    run = ended.run
    return _tell(cli, "released", ended.item, f"from {cli.paint.agent(run.agent)} (session {clean(run.session)})")


def _by_someone(parser: Parser) -> None:
    parser.item()
    parser.reason()
    parser.request_id()
    parser.actor()


def _tell(cli: Cli, what: str, item: Item, rest: str) -> None:
    if cli.json:
        return cli.answer({"item": item})
    return cli.say(f"{cli.paint(what, 'green')} {cli.paint(item.id, 'bold')}  {rest}")
