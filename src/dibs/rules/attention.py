"""Which items of a board need a person, and why, for every screen that shows them."""

from __future__ import annotations

from dibs.model import BLOCKED, FAILED, IN_PROGRESS, PENDING_APPROVAL, PERSON
from dibs.text import times
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.model.dashboard import Brief, Held

#: All items of a board are asked, and most have other statuses.
MAY_NEED = frozenset({PENDING_APPROVAL, IN_PROGRESS, BLOCKED, FAILED})


class Need(Value):
    """An item that needs a person, why, and the verb that answers it. Those of a lower rank come first."""

    item: str
    rank: int
    why: str
    since: int
    verb: str


def needs(items: Mapping[str, Brief], holdings: Mapping[str, Held], now: int, stale_seconds: float) -> list[Need]:
    """What needs a person, the most urgent first."""
    asked = (one for one in items.values() if one.status in MAY_NEED)
    found = [need for one in asked if (need := _need(one, holdings.get(one.id), now, stale_seconds)) is not None]
    return sorted(found, key=lambda need: (need.rank, -items[need.item].priority, need.since, need.item))


def is_silent(held: Held, now: int, stale_seconds: float) -> bool:
    """A person sends no heartbeats."""
    return held.kind != PERSON and (now - held.renewed_at) / 1000 > stale_seconds


def _need(item: Brief, held: Held | None, now: int, stale_seconds: float) -> Need | None:
    dead = next((one for one in item.open_blockers if not one.will_move), None)
    rank, since, verb = 0, item.updated_at, "approve"
    if item.status == PENDING_APPROVAL:
        why = f"{'draft' if item.token else 'plan'} waits {_span(now - since)}"
    elif item.status == IN_PROGRESS and held is not None and is_silent(held, now, stale_seconds):
        rank, since, verb = 1, held.renewed_at, "force-release"
        again = f"{item.strikes + 1}. try, " if item.strikes else ""
        why = f"{again}{held.session} silent {_span(now - since)}"
    elif item.status == BLOCKED and dead is not None:
        rank, why, verb = 2, f"needs {dead.item}, which is {dead.status}", "show"
    elif item.status == FAILED:
        ago = f"failed {_span(now - since)} ago, attempt {item.attempts}"
        rank, why, verb = 3, f"failed: {item.reason}" if item.reason else ago, "retry"
    else:
        return None
    return Need(item=item.id, rank=rank, why=why, since=since, verb=verb)


def _span(milliseconds: int) -> str:
    return times.span(milliseconds / 1000)
