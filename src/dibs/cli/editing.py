"""Changing what is on the board from outside a claim: edit, park, unpark, cancel, retry, force-release."""

from __future__ import annotations

from dibs.cli.claim_lines import and_now, kind_of, will_not_move
from dibs.cli.context import Cli
from dibs.cli.items import content, content_options
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Edited, Item

#: The lists that an edit replaces as a whole, and what the options call them.
LISTS = {"labels": "labels", "depends_on": "needs", "resources": "resources"}


def edit_options(parser: Parser) -> None:
    parser.item()
    parser.option("--title", metavar="TEXT", help="what there is to do, in one line")
    content_options(parser)
    parser.option("--no-needs", help="it needs nothing any more")
    parser.option("--no-resources", help="it touches nothing any more")
    parser.number("--revision", help="the one that was read (dibs show), and no other")
    parser.request_id()
    parser.actor()


def edit(cli: Cli) -> None:
    """Change what was named; an empty `--phase` or `--label` takes away what was there."""
    asked, changes = cli.args, content(cli)
    if asked.title is not None:
        changes["title"] = asked.title
    if changes.get("phase") == "":
        changes["phase"] = None
    changes |= _emptied("--needs", "depends_on", asked.needs, asked.no_needs)
    changes |= _emptied("--resource", "resources", asked.resource, asked.no_resources)
    edited = cli.board.edit(asked.item, revision=asked.revision, request_id=asked.request_id, **changes)
    if cli.json:
        return cli.answer({"item": edited.item, "before": edited.before, "blockers": edited.blockers})
    if not edited.before:
        return cli.say(f"{cli.paint(edited.id, 'bold')} is unchanged: it says that already")
    moved = f"  {and_now(edited, cli.paint)}" if "status" in edited.before else ""
    line = f"{cli.paint('edited', 'green')} {cli.paint(edited.id, 'bold')}  {clean(edited.title)}"
    more = [*_replaced(edited), *will_not_move(edited, edited.blockers, cli.paint)]
    return cli.say(f"{line}  {cli.paint(kind_of(edited), 'dim')}{moved}", *(f"  {one}" for one in more))


def _replaced(edited: Edited) -> list[str]:
    """What the edit took away, which the item itself does not show: whole lists, and an approval."""
    lines = []
    for field, name in LISTS.items():
        before, after = edited.before.get(field), getattr(edited, field)
        if before:
            now = f"replaced by {', '.join(after)}" if after else "taken away"
            lines.append(clean(f"{name}: {', '.join(before)} {now}"))
    if edited.before.get("approved"):
        lines.append("its approval is withdrawn, since what was approved has changed")
    return lines


def park_options(parser: Parser) -> None:
    _by_someone(parser)


def park(cli: Cli) -> None:
    asked = cli.args
    item = cli.board.park(asked.item, reason=asked.reason, request_id=asked.request_id)
    _tell(cli, "parked", item, clean(item.title))


def unpark_options(parser: Parser) -> None:
    _by_someone(parser)


def unpark(cli: Cli) -> None:
    asked = cli.args
    item = cli.board.unpark(asked.item, reason=asked.reason, request_id=asked.request_id)
    _tell(cli, "unparked", item, f"{clean(item.title)}  {and_now(item, cli.paint)}")


def cancel_options(parser: Parser) -> None:
    _by_someone(parser)


def cancel(cli: Cli) -> None:
    asked = cli.args
    item = cli.board.cancel(asked.item, reason=asked.reason, request_id=asked.request_id)
    _tell(cli, "cancelled", item, clean(item.title) + ("" if cli.json else _taken_from(cli, item.id)))


def retry_options(parser: Parser) -> None:
    _by_someone(parser)


def retry(cli: Cli) -> None:
    asked = cli.args
    item = cli.board.retry(asked.item, reason=asked.reason, request_id=asked.request_id)
    _tell(cli, "to be tried again", item, f"{clean(item.title)}  {and_now(item, cli.paint)}")


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
    holder = f"from {cli.paint.agent(run.agent)} (session {clean(run.session)})"
    return _tell(cli, "released", ended.item, f"{holder}  {and_now(ended.item, cli.paint)}")


def _taken_from(cli: Cli, item: str) -> str:
    """Who held the item that was cancelled, by its history."""
    (last,) = cli.board.events(item=item, newest=True, limit=1)
    if last.kind != "cancelled" or last.agent is None:
        return ""
    return f"  taken from {cli.paint.agent(last.agent)} (session {clean(last.session or '')})"


def _emptied(option: str, field: str, given: list[str], nothing: bool) -> dict[str, list[str]]:
    """The change that leaves a list empty, if that was asked for."""
    if nothing and given:
        raise UsageError(f"{option} names some, and another option says that there are none", field=field)
    return {field: []} if nothing else {}


def _by_someone(parser: Parser) -> None:
    parser.item()
    parser.reason()
    parser.request_id()
    parser.actor()


def _tell(cli: Cli, what: str, item: Item, rest: str) -> None:
    if cli.json:
        return cli.answer({"item": item})
    return cli.say(f"{cli.paint(what, 'green')} {cli.paint(item.id, 'bold')}  {rest}")
