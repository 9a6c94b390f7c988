"""Events as lines for people: the details of each kind, and its colour."""

from __future__ import annotations

from dibs.cli.render import TONE_COLOURS, Paint, agent_colour, clean, clock, cut, number_of, table
from dibs.model import BLOCKED, DONE, EDITABLE, READY, SCHEDULED
from dibs.rules.event_kinds import BY_NAME, EVENT_KINDS, FAINT, OUTCOMES
from dibs.text import json_text, times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from dibs.model import Event

#: How much of a part of a cost is shown: programs report whole tables there.
AMOUNT_COLUMNS_MAX = 60
#: The colour of each kind of event.
KIND_COLOURS = {kind.name: TONE_COLOURS[kind.tone] for kind in EVENT_KINDS}
#: The colour of each outcome of a run that needs one. The others are ends without a result, as everybody expects them.
OUTCOME_COLOURS = {name: KIND_COLOURS[name] for name, end in OUTCOMES.items() if end.tone != FAINT}
#: The least widths of the columns of a feed that is followed, whose later lines are not known yet.
FEED_WIDTHS = {"number": 5, "time": 8, "item": 16, "kind": 12, "who": 10, "words": 0}
#: Kinds about a session without a claim: the token in the event is that of the item's latest claim.
WITHOUT_TOKEN = frozenset({"offered", "offer_lapsed"})


def item_lines(events: Sequence[Event], paint: Paint, columns: int | None) -> list[str]:
    """The events of one item, one line each."""
    rows = [[clock(event.at), _kind(event), _who(event), *details(event)] for event in events]
    styles = [["dim", KIND_COLOURS.get(event.kind, ""), *_colours(event)] for event in events]
    return table(rows, styles=styles, shrink=(4, 2), columns=columns, paint=paint, indent="  ")


def feed_lines(events: Sequence[Event], paint: Paint, columns: int | None, *, follow: bool = False) -> list[str]:
    """The events of the board, one line each; with `follow` in columns of fixed widths, which later lines share."""
    rows = [
        [
            str(event.id),
            clock(event.at),
            clean(event.item),
            _kind(event),
            _who(event),
            " ".join(filter(None, details(event))),
        ]
        for event in events
    ]
    if follow:
        rows = [[cell.ljust(size) for cell, size in zip(row, FEED_WIDTHS.values(), strict=True)] for row in rows]
    styles = [
        [
            "dim",
            "dim",
            "dim" if event.kind == "claimable" else "bold",
            KIND_COLOURS.get(event.kind, ""),
            *_colours(event),
        ]
        for event in events
    ]
    return table(rows, styles=styles, shrink=(5, 4), right=(0,), keep=(2,), columns=columns, paint=paint)


def details(event: Event) -> tuple[str, str]:
    """What the event records besides its kind: the token of the run, and the rest as text."""
    data = event.data
    words = [*_words(event), *_unusual_status(event)]
    if event.agent and event.actor not in (event.agent, "dibs"):
        words.append(f"by {event.actor}")
    words += [f"{name}: {target}" for name, target in data.get("links", {}).items()]
    if event.kind == "annotated":
        words += checks_and_cost(data.get("checks", {}), data.get("cost", {}))
    token = f"token {data.get('run', event.token)}" if event.agent and event.kind not in WITHOUT_TOKEN else ""
    return token, " ".join(" · ".join(words).splitlines())


def checks_and_cost(checks: dict[str, Any], cost: dict[str, Any]) -> list[str]:
    """The checks of a run and its cost, each in a few words."""
    lines = []
    for name, check in checks.items():
        result = check if isinstance(check, dict) else {"state": check}
        lines.append(f"{name}: {' '.join(str(result[part]) for part in ('state', 'url') if part in result)}")
    return lines + [f"{name}: {_amount(amount)}" for name, amount in cost.items()]


def _amount(amount: Any) -> str:
    """A part of a cost as it is written in JSON, in one short line: `--json` has the whole."""
    if isinstance(amount, float):
        return f"{amount:.6g}"
    if isinstance(amount, dict | list | tuple):
        return cut(clean(json_text.dumps(amount)), AMOUNT_COLUMNS_MAX)
    return str(amount)


def _words(event: Event) -> list[str]:
    data = event.data
    given = [str(data[name]) for name in ("note", "reason", "comment", "over") if data.get(name)]
    match event.kind:
        case "added":
            return [data.get("title", ""), *_conditions(data)]
        case "edited":
            return _edits(data)
        case "claimed":
            return _duration(event)
        case "handed":
            return [f"to session {data.get('to')}", *given]
        case "offered":
            return [f"to session {event.session} for {times.span((data['offer_expires_at'] - event.at) / 1000)}"]
        case "offer_lapsed":
            return [f"session {event.session} did not accept it in time"]
        case "unblocked":
            return ["all dependencies are done"]
        case "due":
            # A scheduled item that is blocked now did not come due: one of its dependencies is no longer done.
            return ["its time has come"] if event.status != BLOCKED else ["a dependency is not done"]
        case "submitted":
            return [f"draft: {data['draft']}" if "draft" in data else "its result", *given]
        case "expired" | "owner_died":
            return [number_of(data["strikes"], "strike"), *given] if "strikes" in data else given
        case _:
            return given


def _duration(event: Event) -> list[str]:
    """How long the claim was granted for: its TTL, or less if its deadline comes first."""
    if "ttl_seconds" not in event.data:
        return []
    seconds = event.data["ttl_seconds"]
    if event.data.get("deadline_at") is not None:
        seconds = min(seconds, (event.data["deadline_at"] - event.at) / 1000)
    return [times.WHILE_ALIVE if seconds > times.ENDLESS_SECONDS else f"for {times.span(seconds)}"]


def _conditions(data: dict[str, Any]) -> list[str]:
    """What a new item has to wait for."""
    found = [f"needs {', '.join(data['depends_on'])}"] if data.get("depends_on") else []
    found += [f"not before {clock(data['not_before'])}"] if data.get("not_before") else []
    return found + (["needs approval"] if data.get("needs_approval") else [])


def _edits(data: dict[str, Any]) -> list[str]:
    """The edited fields, and whether the edit withdrew the approval."""
    shown = {name: value for name, value in data.items() if name in EDITABLE}
    said = _said(shown.get("payload"))
    if said and shown.keys() == {"payload"}:
        return [said]
    if shown.get("not_before"):
        shown["not_before"] = clock(shown["not_before"])
    words = [", ".join(f"{name} = {_value_text(value)}" for name, value in shown.items())]
    return words + (["its approval is withdrawn"] if data.get("needs_approval") else [])


def _said(payload: Any) -> str:
    """What another system said last about the item, if an edit is about that: see `follow` in `dibs.github`."""
    external = payload.get("external") if isinstance(payload, dict) else None
    return str(external.get("said") or "") if isinstance(external, dict) else ""


def _unusual_status(event: Event) -> list[str]:
    """The item's new status, if it is not the usual one after this kind of event."""
    kind, status = event.kind, event.status
    known = BY_NAME.get(kind)
    if known is None or known.usual in (None, status):
        return []
    if kind == "failed" and status in (READY, SCHEDULED):
        again = event.data.get("not_before")
        return ["to be retried" + (f" at {clock(again)}" if again and status == SCHEDULED else "")]
    if kind == "approved" and status == DONE and event.data.get("draft_token") is not None:
        return ["the draft is the result"]
    return [f"now {status}"]


def _value_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _kind(event: Event) -> str:
    return event.kind.replace("_", " ")


def _who(event: Event) -> str:
    """The agent of the claim or ticket that the event is about, else the actor."""
    return event.agent or event.actor


def _colours(event: Event) -> list[str]:
    """The colours of the name, the token and the text."""
    who = agent_colour(event.agent) if event.agent else "dim"
    return [who, "dim", "dim"] if event.kind == "claimable" else [who]
