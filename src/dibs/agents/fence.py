"""The fence at the tool: an agent that lost a claim is stopped at its next command or edit, and told why."""

from __future__ import annotations

import os
import time

from dibs.agents import files
from dibs.config import ENV_FENCE
from dibs.rules.resources import covering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.payload import Payload
    from dibs.agents.state import Loss
    from dibs.config import Settings

OFF = ("off", "0", "no")
#: What happened to a claim, in words.
HOW = {
    "taken_over": "was taken over",
    "force_released": "was force-released",
    "cancelled": "was cancelled",
    "restored": "was released by a restore of the board",
}


def is_off(settings: Settings) -> bool:
    """Whether a person switched it off: for one agent by the variable, for a board by the setting."""
    return not settings.fence or os.environ.get(ENV_FENCE, "").lower() in OFF


def denial(payload: Payload, losses: list[Loss], *, holds_others: bool, folder: str) -> str | None:
    """Why the tool may not run; None if it may. An agent that still holds another item is stopped only where it would
    write what belongs to the lost one."""
    if not holds_others:
        return describe(losses[0])
    if not payload.is_edit:
        return None
    below = [files.below_top(path, folder) for path in files.written(payload)]
    for loss in losses:
        if any(path is not None and covering(path, loss.resources) for path in below):
            return describe(loss)
    return None


def describe(loss: Loss) -> str:
    """One line: what was lost, by whom, since when, and what to do."""
    by = f" by {loss.by}" if loss.by else ""
    since = time.strftime("%H:%M:%S", time.localtime(loss.since / 1000))
    how = HOW.get(loss.how, f"cannot be recovered ({loss.how})")
    return (
        f"dibs: your claim of {loss.item} is lost: it {how}{by} at {since}. Stop working on it. "
        f"Run: dibs release {loss.item}; then: dibs next"
    )
