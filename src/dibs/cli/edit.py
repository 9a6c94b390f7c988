"""Change items from outside a claim: edit, park, unpark, cancel, retry, force-release."""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.claim_lines import attributes, new_status, stuck
from dibs.cli.context import Cli
from dibs.cli.items import item_fields
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import clean, replaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from dibs.model import Edited, Item

#: The fields that an edit replaces as a whole, and what the options call them.
LISTS = {"labels": "labels", "depends_on": "needs", "resources": "resources"}


def edit_options(parser: Parser) -> None:
    parser.item()
    parser.option("--title", metavar="TEXT", help="the work to do, in one line")
    parser.item_fields()
    parser.names("--add-label", metavar="L", help="add a label to the others")
    parser.names("--remove-label", metavar="L", help="remove one label")
    parser.names("--add-needs", metavar="ID", help="add an item that must be done first")
    parser.names("--remove-needs", metavar="ID", help="remove one dependency")
    parser.option("--add-resource", metavar="R", help="add a resource to the others; repeatable", repeated=True)
    parser.option("--no-needs", help="remove all dependencies")
    parser.option("--no-resources", help="remove all resources")
    parser.revision()
    parser.token()
    parser.option("--session", metavar="ID", help="edit only if this session holds the item")
    parser.request_id()
    parser.actor()


def edit(cli: Cli) -> None:
    """Change the named fields; an empty `--phase` or `--label` clears the field."""
    args, changes = cli.args, item_fields(cli)
    if args.title is not None:
        changes["title"] = args.title
    if changes.get("phase") == "":
        changes["phase"] = None
    for options, field, given, cleared in (
        ("--needs and --no-needs", "depends_on", args.needs, args.no_needs),
        ("--resource and --no-resources", "resources", args.resource, args.no_resources),
    ):
        if cleared and given:
            raise UsageError(f"{options} contradict each other; give only one of them", field=field)
        if cleared:
            changes[field] = []
    for option, field, given in (
        ("--add-resource", "resources", args.add_resource),
        ("--add-label and --remove-label", "labels", args.add_label or args.remove_label),
        ("--add-needs and --remove-needs", "depends_on", args.add_needs or args.remove_needs),
    ):
        if given and field in changes:
            raise UsageError(f"{option} change the list that is there; give no new list", field=field)
    edited = cli.board.edit(
        args.item,
        add_resources=args.add_resource,
        **_list_changes(cli),
        **_holder(cli),
        revision=args.revision,
        request_id=args.request_id,
        **changes,
    )
    if cli.json:
        return cli.print_json({"item": edited.item, "before": edited.before, "blockers": edited.blockers})
    if not edited.before:
        return cli.print(f"{cli.paint(edited.id, 'bold')} is unchanged: it has these values already")
    moved = f"  {new_status(edited, cli.paint)}" if "status" in edited.before else ""
    line = f"{cli.paint('edited', 'green')} {cli.paint(edited.id, 'bold')}  {clean(edited.title)}"
    more = [*_side_effects(edited), *stuck(edited, edited.blockers, cli.paint)]
    return cli.print(f"{line}  {cli.paint(attributes(edited), 'dim')}{moved}", *(f"  {one}" for one in more))


def _list_changes(cli: Cli) -> dict[str, Any]:
    """What to add to labels and dependencies and what to remove, as far as it was given."""
    args = cli.args
    changes = {"add_labels": args.add_label, "remove_labels": args.remove_label}
    changes |= {"add_needs": args.add_needs, "remove_needs": args.remove_needs}
    return {name: given for name, given in changes.items() if given}


def _holder(cli: Cli) -> dict[str, Any]:
    """Edit as the holder of the item: if a session or a token is named, or to add resources to an item that the
    caller's session holds."""
    args = cli.args
    if args.session is None and args.token is None:
        if not args.add_resource:
            return {}
        claim, session = cli.board.get(args.item).claim, identity.caller(cli).session
        if claim is None or claim.session != session:
            return {}
    return {"session": identity.require_session(cli), "token": identity.claim_token(cli)}


def _side_effects(edited: Edited) -> list[str]:
    """What the edit removed, which the item itself no longer shows: replaced lists, and an approval."""
    changes = [
        replaced(name, edited.before[field], getattr(edited, field))
        for field, name in LISTS.items()
        if edited.before.get(field)
    ]
    withdrawn = ["its approval is withdrawn, because what was approved has changed"]
    return changes + (withdrawn if edited.before.get("approved") else [])


def _change_options(parser: Parser) -> None:
    parser.item()
    parser.reason()
    parser.request_id()
    parser.actor()


park_options = unpark_options = cancel_options = retry_options = reopen_options = _change_options


def park(cli: Cli) -> None:
    _print(cli, "parked", _call(cli, cli.board.park))


def unpark(cli: Cli) -> None:
    item = _call(cli, cli.board.unpark)
    _print(cli, "unparked", item, new_status(item, cli.paint))


def cancel(cli: Cli) -> None:
    item = _call(cli, cli.board.cancel)
    _print(cli, "cancelled", item, "" if cli.json else _former_holder(cli, item.id))


def retry(cli: Cli) -> None:
    item = _call(cli, cli.board.retry)
    _print(cli, "to be retried", item, new_status(item, cli.paint))


def reopen(cli: Cli) -> None:
    item = _call(cli, cli.board.reopen)
    _print(cli, "reopened", item, new_status(item, cli.paint))


def _call(cli: Cli, verb: Callable[..., Item]) -> Item:
    return verb(cli.args.item, reason=cli.args.reason, request_id=cli.args.request_id)


def _print(cli: Cli, what: str, item: Item, more: str = "") -> None:
    line = f"{cli.paint(what, 'green')} {cli.paint(item.id, 'bold')}  {clean(item.title)}"
    cli.reply({"item": item}, f"{line}  {more}" if more else line)


def _former_holder(cli: Cli, item: str) -> str:
    """The session whose claim a cancellation ended, from the item's history."""
    (last,) = cli.board.events(item=item, newest=True, limit=1)
    if last.kind != "cancelled" or last.agent is None:
        return ""
    return f"taken from {cli.paint.agent(last.agent)} (session {clean(last.session or '')})"


def force_release_options(parser: Parser) -> None:
    parser.item()
    parser.reason(required=True)
    parser.number("--token", help="refuse unless the item is held under this token")
    parser.request_id()
    parser.actor()


def force_release(cli: Cli) -> None:
    args, paint = cli.args, cli.paint
    ended = cli.board.force_release(args.item, reason=args.reason, token=args.token, request_id=args.request_id)
    run, item = ended.run, ended.item
    holder = f"from {paint.agent(run.agent)} (session {clean(run.session)})"
    cli.reply(ended, f"{paint('released', 'green')} {paint(item.id, 'bold')}  {holder}  {new_status(item, paint)}")
