"""What needs a person, the health of claims and sessions at this second, and the filter of lists.

Silence writes no event, so all of it is asked again as time passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.model import ENDED, PERSON
from dibs.rules import attention, fencing, health
from dibs.rules.attention import Need

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.cli.top.state import BoardState
    from dibs.model.dashboard import Brief, Deduction, Held, Seat

FIELDS = ("status", "project", "type", "label", "agent")


def needs(state: BoardState) -> list[Need]:
    return attention.needs(state.items, state.holdings, state.now, state.settings.stale_seconds)


def mark(state: BoardState, held: Held) -> str:
    """The health of a claim in a word."""
    found = fencing.health(held, state.now, state.settings)
    return "ok" if found == "healthy" or (held.kind == PERSON and found in ("stale", "orphaned")) else found


def is_silent(state: BoardState, held: Held) -> bool:
    return attention.is_silent(held, state.now, state.settings.stale_seconds)


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
