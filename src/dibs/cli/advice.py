"""What to type after a refusal, appended to it, and fields of verbs called as the options that set them.

Refusals are worded for every client; a command line knows what can be typed. This module is imported only after one.
"""

from __future__ import annotations

from dibs.cli.words import OWN
from dibs.errors import DibsError, Invalid, ItemAlreadyClaimed, ItemNotClaimable, ItemNotClaimed, ItemNotFound
from dibs.model import PENDING_APPROVAL
from dibs.model.item_fields import OPTIONS as OF_ITEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.cli.context import Cli

#: The options of parameters that have another name.
OPTIONS = {name: field.option for name, field in OF_ITEM.items()} | {
    "n": "--number",
    "types": "--type",
    "projects": "--project",
    "statuses": "--status",
    "ttl_seconds": "--ttl",
    "wait_seconds": "--wait",
    "older_than_seconds": "--older-than",
    "at_most_every_seconds": "--at-most-every",
    "q": "--search",
    "claims_burst": "--burst",
    "allowed_actions": "--allow",
    "sensitive_actions": "--sensitive",
}


def advise(cli: Cli, command: str, known: Mapping[str, object], error: DibsError) -> None:
    """Change the message of the refusal in place."""
    field = error.facts.get("field")
    if isinstance(error, Invalid) and isinstance(field, str):
        option = OPTIONS.get(field, f"--{field.replace('_', '-')}")
        if option in known and error.message.startswith(f"{field} "):
            error.message = option + error.message.removeprefix(field)
    error.message = error.message.replace(command.replace("-", "_"), command)
    # In brief answers, `do` says what to do; programs read the facts.
    item = None if cli.json else getattr(cli.args, "item", None)
    more = None if item is None else _what_to_type(cli, command, item, error)
    if more is not None and more not in error.message:
        error.message += f"; {more}"


def _what_to_type(cli: Cli, command: str, item: str, error: DibsError) -> str | None:
    match error:
        case ItemNotFound() if not error.facts.get("candidates"):
            return "see: dibs list --all"
        case ItemAlreadyClaimed() if command in ("claim", "exec") and not cli.args.wait:
            return f"to queue for it: dibs claim {item} --wait 10m"
        case ItemNotClaimable() if command in ("claim", "exec") and error.facts.get("offered_to"):
            return f"to queue for it: dibs claim {item} --wait 10m"
        case ItemNotClaimable() if command in ("claim", "exec") and error.facts.get("status") == PENDING_APPROVAL:
            return f"see: dibs show {item}"
        case ItemNotClaimed() if command in OWN and error.message.endswith("the item is ready"):
            return f"to claim it: dibs claim {item}"
    return None
