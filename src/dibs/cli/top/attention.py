"""What needs a person, the health of claims and sessions at this second, and the filter of lists.

Silence writes no event, so all of it is asked again as time passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.model import BLOCKED, ENDED, FAILED, IN_PROGRESS, PENDING_APPROVAL, PERSON
from dibs.rules import fencing, health
from dibs.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.cli.top.state import BoardState
    from dibs.model.dashboard import Brief, Deduction, Held, Seat

#: All of the items are asked, and most are in other statuses.
MAY_NEED = frozenset({PENDING_APPROVAL, IN_PROGRESS, BLOCKED, FAILED})
FIELDS = ("status", "project", "type", "label", "agent")


class Need(Value):
    """An item that needs a person, and why. Those of a lower rank come first."""

    item: str
    rank: int
    why: str
    since: int


def needs(state: BoardState) -> list[Need]:
    found = [need for item in state.items.values() if (need := _need(state, item)) is not None]
    return sorted(found, key=lambda need: (need.rank, -state.items[need.item].priority, need.since, need.item))


def mark(state: BoardState, held: Held) -> str:
    """The health of a claim in a word."""
    found = fencing.health(held, state.now, state.settings)
    return "ok" if found == "healthy" or (held.kind == PERSON and found in ("stale", "orphaned")) else found


def is_silent(state: BoardState, held: Held) -> bool:
    """A person sends no heartbeats."""
    return held.kind != PERSON and (state.now - held.renewed_at) / 1000 > state.settings.stale_seconds


def score(state: BoardState, seat: Seat) -> tuple[int, tuple[Deduction, ...]]:
    claims = [state.holdings[item] for item in seat.holding if item in state.holdings]
    outcomes = [run.outcome for run in seat.recent if run.outcome is not None]
    own = [held for held in claims if held.session == seat.id]
    return health.score(state.now, seat, own, outcomes, state.settings)


def short(seconds: float) -> str:
    """A duration as short as possible: 45s, 12m, 3h, 5d."""
    whole = max(0, int(seconds))
    for unit, size in (("s", 60), ("m", 60), ("h", 48)):
        if whole < size:
            return f"{whole}{unit}"
        whole //= 24 if unit == "h" else 60
    return f"{whole}d"


def matcher(state: BoardState, text: str) -> Callable[[Brief], bool]:
    """Whether an item matches a filter such as `status:ready label:web words`. Without a status, ended ones do not."""
    if not text:
        return lambda item: item.status not in ENDED
    fields, words = parse(text)

    def matches(item: Brief) -> bool:
        held = state.holdings.get(item.id)
        values = {
            **{"status": {item.status}, "project": {item.project}, "type": {item.type}, "label": set(item.labels)},
            "agent": set() if held is None else {held.agent},
        }
        if "status" not in fields and item.status in ENDED:
            return False
        if not all(values[name] & wanted for name, wanted in fields.items()):
            return False
        hay = f"{item.id} {item.title} {' '.join(item.labels)}".lower()
        return all(word in hay for word in words)

    return matches


def parse(text: str) -> tuple[dict[str, set[str]], list[str]]:
    """The fields of a filter, each with the values that fit, and its words."""
    fields: dict[str, set[str]] = {}
    words = []
    for part in text.split():
        name, _, value = part.partition(":")
        if name in FIELDS and value:
            fields.setdefault(name, set()).update(filter(None, value.split(",")))
        else:
            words.append(part.lower())
    return fields, words


def in_order(item: Brief) -> tuple[int, int, str]:
    """Sorts items as `next` gives them out."""
    return -item.priority, item.created_at, item.id


def _need(state: BoardState, item: Brief) -> Need | None:
    if item.status not in MAY_NEED:
        return None
    held = state.holdings.get(item.id)
    dead = next((one for one in item.open_blockers if not one.will_move), None)
    rank, since = 0, item.updated_at
    age = short((state.now - since) / 1000)
    if item.status == PENDING_APPROVAL:
        why = f"{'draft' if item.token else 'plan'} waits {age}"
    elif item.status == IN_PROGRESS and held is not None and is_silent(state, held):
        rank, since = 1, held.renewed_at
        again = f"{item.strikes + 1}. try, " if item.strikes else ""
        why = f"{again}{held.session} silent {short((state.now - since) / 1000)}"
    elif item.status == BLOCKED and dead is not None:
        rank, why = 2, f"needs {dead.item}, which is {dead.status}"
    elif item.status == FAILED:
        reason = state.reasons.get(item.id)
        rank, why = 3, f"failed: {reason}" if reason else f"failed {age} ago, attempt {item.attempts}"
    else:
        return None
    return Need(item=item.id, rank=rank, why=why, since=since)
