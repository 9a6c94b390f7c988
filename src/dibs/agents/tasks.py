"""Claude Code's own tasks and teams: the place for what their events do on the board."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.agents.access import Access
    from dibs.agents.payload import Payload


def before(payload: Payload, access: Access) -> str:
    """Before a task tool runs."""
    return ""


def after(payload: Payload, access: Access) -> str:
    """After a task tool ran, or failed."""
    return ""


def created(payload: Payload, access: Access) -> str:
    return ""


def completed(payload: Payload, access: Access) -> str:
    return ""


def idle(payload: Payload, access: Access) -> str:
    return ""
