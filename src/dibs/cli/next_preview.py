"""`dibs next --dry-run`: what `next` would claim at this instant. It writes nothing, so it starts no session."""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.claim_commands import NOTHING
from dibs.cli.claim_lines import attributes
from dibs.cli.context import Cli
from dibs.cli.parser import UsageError
from dibs.cli.render import clean
from dibs.errors import SessionNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.model import Item


def show(cli: Cli) -> int:
    args = cli.args
    if args.wait or args.request_id or args.ttl is not None:
        raise UsageError("--dry-run claims nothing; leave out --wait, --ttl and --request-id", field="dry_run")
    items = _preview(cli)
    if args.quiet:
        cli.print(*(item.id for item in items))
    elif cli.json:
        cli.print_json({"items": items})
    elif not items:
        cli.notice("nothing to claim right now")
    for item in () if cli.json or args.quiet else items:
        cli.print(
            f"would claim {cli.paint(item.id, 'bold')}  {clean(item.title)}  {cli.paint(attributes(item), 'dim')}"
        )
    return 0 if items else NOTHING


def _preview(cli: Cli) -> tuple[Item, ...]:
    """For the caller's session; where none is known or live, for a new session of the agent."""
    args, who = cli.args, identity.caller(cli)
    wanted: dict[str, Any] = {"types": args.type, "projects": args.project, "labels": args.label, "n": args.number}
    if who.session is not None:
        try:
            return cli.board.preview(session=who.session, **wanted)
        except SessionNotFound:
            pass
    return cli.board.preview(agent=who.agent or who.program, **wanted)
