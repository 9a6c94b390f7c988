"""The fence at the tool: an agent that lost a claim is stopped at its next command or edit, and told why."""

from __future__ import annotations

import os
import time

from dibs.config import ENV_FENCE
from dibs.rules.resources import covering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.state import Loss

OFF = ("off", "0", "no")
#: What happened to a claim, in words.
HOW = {
    "taken_over": "was taken over",
    "force_released": "was force-released",
    "cancelled": "was cancelled",
    "restored": "was released by a restore of the board",
}


def is_off() -> bool:
    """Whether a person switched it off, in the environment of the client. No file does: an agent can write it, and it
    may come with a commit."""
    return os.environ.get(ENV_FENCE, "").lower() in OFF


def denial(losses: list[Loss], *, holds_others: bool, places: list[str]) -> str | None:
    """Why a tool may not run that writes these places; None if it may. An agent that still holds another item is
    stopped only where it would write what belongs to the lost one."""
    for loss in losses:
        if not holds_others or any(covering(place, loss.resources) for place in places):
            return describe(loss)
    return None


def describe(loss: Loss) -> str:
    """One line: what was lost, by whom, since when, and what to do."""
    by = f" by {loss.by}" if loss.by else ""
    since = time.strftime("%H:%M:%S", time.localtime(loss.since / 1000))
    if loss.how == "handed":
        to = f" to {loss.by}" if loss.by else ""
        return (
            f"dibs: your claim of {loss.item} was handed over{to} at {since}. That session works on it now, not you. "
            f"Run: dibs release {loss.item}; then: dibs next"
        )
    how = HOW.get(loss.how, f"cannot be recovered ({loss.how})")
    return (
        f"dibs: your claim of {loss.item} is lost: it {how}{by} at {since}. Stop working on it. "
        f"Run: dibs release {loss.item}; then: dibs next"
    )
