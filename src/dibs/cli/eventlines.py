"""Events as lines: what each kind tells besides its name, and in which colour."""

from __future__ import annotations

from dibs import when
from dibs.cli.render import Paint, agent_colour, clean, clock, number_of, table
from dibs.model import BLOCKED, DONE, EDITABLE, FAILED, READY, SCHEDULED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.model import Event

#: Every kind of event there is, with its colour.
KINDS = {
    "added": "green",
    "edited": "",
    "claimable": "dim",
    "offered": "cyan",
    "offer_lapsed": "yellow",
    "unblocked": "green",
    "due": "green",
    "claimed": "cyan",
    "progress": "",
    "done": "green",
    "failed": "red",
    "submitted": "magenta",
    "approved": "green",
    "sent_back": "yellow",
    "rejected": "red",
    "released": "yellow",
    "forgotten": "yellow",
    "expired": "yellow",
    "owner_died": "red",
    "force_released": "magenta",
    "parked": "yellow",
    "unparked": "green",
    "cancelled": "magenta",
    "retried": "green",
    "restored": "magenta",
    "found": "magenta",
    "annotated": "",
}
#: How wide the columns of the feed are while it is not known what comes.
FEED_WIDTHS = {"number": 5, "time": 8, "item": 16, "kind": 12, "who": 10, "words": 0}
#: Kinds that name a session which has no claim: the token is not its own.
WITHOUT_TOKEN = frozenset({"offered", "offer_lapsed"})
#: Where anybody expects an item to be after an event of this kind; only something else is worth a word.
EXPECTED = dict.fromkeys(("released", "forgotten", "expired", "owner_died", "force_released", "sent_back"), READY)
EXPECTED |= dict.fromkeys(("approved", "unblocked", "due", "unparked", "retried", "restored"), READY)
#: What was found can be anywhere, so its place is always told.
EXPECTED |= {"failed": FAILED, "found": ""}


def item_lines(events: Sequence[Event], paint: Paint, columns: int | None) -> list[str]:
    """The events of one item, a line each."""
    rows = [[clock(event.at), _kind(event), _who(event), *told(event)] for event in events]
    styles = [["dim", KINDS.get(event.kind, ""), *_colours(event)] for event in events]
    return table(rows, styles=styles, shrink=(4, 2), columns=columns, paint=paint, indent="  ")


def feed_lines(events: Sequence[Event], paint: Paint, columns: int | None, *, follow: bool = False) -> list[str]:
    """The board's feed, a line each; with `follow` in columns of fixed widths, so that later lines fit to them."""
    rows = [
        [
            str(event.id),
            clock(event.at),
            clean(event.item),
            _kind(event),
            _who(event),
            " ".join(filter(None, told(event))),
        ]
        for event in events
    ]
    if follow:
        rows = [[cell.ljust(size) for cell, size in zip(row, FEED_WIDTHS.values(), strict=True)] for row in rows]
    styles = [
        ["dim", "dim", "dim" if event.kind == "claimable" else "bold", KINDS.get(event.kind, ""), *_colours(event)]
        for event in events
    ]
    return table(rows, styles=styles, shrink=(5, 2), right=(0,), columns=columns, paint=paint)


def told(event: Event) -> tuple[str, str]:
    """What the event tells besides its kind: the token it is about, and the rest in words."""
    data = event.data
    words = [*_words(event), *_where_to(event)]
    if event.agent and event.actor not in (event.agent, "dibs"):
        words.append(f"by {event.actor}")
    words += [f"{name}: {target}" for name, target in data.get("links", {}).items()]
    if event.kind == "annotated":
        words += came_of(data.get("checks", {}), data.get("cost", {}))
    token = f"token {data.get('run', event.token)}" if event.agent and event.kind not in WITHOUT_TOKEN else ""
    return token, " ".join(" · ".join(words).splitlines())


def came_of(checks: dict[str, Any], cost: dict[str, Any]) -> list[str]:
    """The checks of a run's work, and what it cost, each in a few words."""
    lines = []
    for name, check in checks.items():
        told = check if isinstance(check, dict) else {"state": check}
        lines.append(f"{name}: {' '.join(str(told[part]) for part in ('state', 'url') if part in told)}")
    return lines + [f"{name}: {amount}" for name, amount in cost.items()]


def _words(event: Event) -> list[str]:
    data = event.data
    given = [str(data[name]) for name in ("note", "reason", "comment") if data.get(name)]
    match event.kind:
        case "added":
            return [data.get("title", ""), *_conditions(data)]
        case "edited":
            return _edits(data)
        case "claimed":
            return _lasting(event)
        case "offered":
            return [f"to session {event.session} for {when.span((data['offer_expires_at'] - event.at) / 1000)}"]
        case "offer_lapsed":
            return [f"session {event.session} did not accept it in time"]
        case "unblocked":
            return ["all that it needs is done"]
        case "due":
            # An item that was scheduled and is blocked now has not come due: something that it needs was taken back.
            return ["its time has come"] if event.status != BLOCKED else ["something that it needs is not done"]
        case "submitted":
            return [f"draft: {data.get('draft', '')}", *given]
        case "expired" | "owner_died":
            return [number_of(data["strikes"], "strike"), *given] if "strikes" in data else given
        case _:
            return given


def _lasting(event: Event) -> list[str]:
    """How long a claim was given for: its TTL, or less if its deadline comes first."""
    if "ttl_seconds" not in event.data:
        return []
    seconds = event.data["ttl_seconds"]
    if event.data.get("deadline_at") is not None:
        seconds = min(seconds, (event.data["deadline_at"] - event.at) / 1000)
    return [when.WHILE_ALIVE if seconds > when.ENDLESS_SECONDS else f"for {when.span(seconds)}"]


def _conditions(data: dict[str, Any]) -> list[str]:
    """What a new item waits for."""
    found = [f"needs {', '.join(data['depends_on'])}"] if data.get("depends_on") else []
    found += [f"not before {clock(data['not_before'])}"] if data.get("not_before") else []
    return found + (["needs approval"] if data.get("needs_approval") else [])


def _edits(data: dict[str, Any]) -> list[str]:
    """What was edited, and whether that asks for approval again."""
    shown = {name: value for name, value in data.items() if name in EDITABLE}
    if shown.get("not_before"):
        shown["not_before"] = clock(shown["not_before"])
    words = [", ".join(f"{name} = {_plain(value)}" for name, value in shown.items())]
    return words + (["its approval is withdrawn: needs approval again"] if data.get("needs_approval") else [])


def _where_to(event: Event) -> list[str]:
    """Where an item went that could have been expected to be elsewhere."""
    kind, status = event.kind, event.status
    if status == EXPECTED.get(kind, status):
        return []
    if kind == "failed" and status in (READY, SCHEDULED):
        again = event.data.get("not_before")
        return ["tried again" + (f" at {clock(again)}" if again and status == SCHEDULED else "")]
    if kind == "approved" and status == DONE and event.data.get("draft_token") is not None:
        return ["its draft is enough"]
    return [f"{status} now"]


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _kind(event: Event) -> str:
    return event.kind.replace("_", " ")


def _who(event: Event) -> str:
    """Who is to be named: the holder of the claim or the waiter that the event is about, else who acted."""
    return event.agent or event.actor


def _colours(event: Event) -> list[str]:
    """The colours of who, token and words."""
    who = agent_colour(event.agent) if event.agent else "dim"
    return [who, "dim", "dim"] if event.kind == "claimable" else [who]
