"""Checks the filters, orders and time windows of the verbs that dashboards read."""

from __future__ import annotations

from _collections_abc import Mapping

from dibs import check
from dibs.errors import Invalid
from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PAGE_MAX = 500
WINDOW_MAX = 5000
STEP_SECONDS_MIN, STEP_SECONDS_MAX = 1, 10**9
SINCE_SECONDS_MIN, SINCE_SECONDS_MAX = 1, 10 * 365 * 86400
INSTANT_DIGITS_MAX = 15
WORDS_LENGTH_MAX = 200
WORDS_MAX = 10
SORTS = ("next", "updated", "created")
#: An order and two numbers of 64 bits.
CURSOR_BYTES_MAX = 60


def checked(
    *,
    status: Iterable[str],
    project: Iterable[str],
    type: Iterable[str],
    label: Iterable[str],
    agent: str | None,
    q: str | None,
) -> dict[str, Any]:
    """A filter of items as stores take it."""
    words = check.optional_text(q, "q", WORDS_LENGTH_MAX)
    if words and len(words.split()) > WORDS_MAX:
        raise Invalid(f"q has more than {WORDS_MAX} words; give fewer", field="q")
    return {
        "status": check.statuses(status, "status"),
        "project": check.names(project, "project"),
        "type": check.names(type, "type"),
        "label": check.names(label, "label"),
        "agent": None if agent is None else check.agent_name(agent),
        "q": words if words and words.strip() else None,
    }


def checked_page(*, sort: str, cursor: str | None, limit: int) -> dict[str, Any]:
    if sort not in SORTS:
        raise Invalid(f"unknown order {sort!r:.60}; choose one of {', '.join(SORTS)}", field="sort")
    return {
        "sort": sort,
        "cursor": None if cursor is None else _position(cursor, sort),
        "limit": check.whole(limit, "limit", low=1, high=PAGE_MAX),
    }


#: The arguments of each verb that `bulk` calls, and whether the argument is needed.
BULK: dict[str, dict[str, bool]] = {
    "park": {"reason": False},
    "unpark": {"reason": False},
    "cancel": {"reason": False},
    "retry": {"reason": False},
    "reopen": {"reason": False},
    "approve": {"comment": False, "done": False},
    "send_back": {"comment": True},
    "reject": {"reason": True},
    "force_release": {"reason": True},
}
#: The verbs that take the token of a claim or a draft.
TOKENED = frozenset({"approve", "force_release"})
FILTER = {"status": (), "project": (), "type": (), "label": (), "agent": None, "q": None}


def checked_bulk(
    verb: str,
    *,
    args: Mapping[str, Any] | None,
    items: Iterable[Mapping[str, Any]],
    filter: Mapping[str, Any] | None,
    expect: int | None,
) -> dict[str, Any]:
    if not isinstance(verb, str) or verb not in BULK:
        raise Invalid(f"{verb!r:.60} cannot be called in bulk; {', '.join(BULK)} can", field="verb")
    asked: dict[str, Any] = {"args": _args(verb, {} if args is None else args)}
    if filter is None:
        if expect is not None:
            raise Invalid("expect belongs to a filter", field="expect")
        return {**asked, "items": _items(verb, items)}
    if check.batch(items):
        raise Invalid("give items or a filter, not both", field="filter")
    if not isinstance(filter, Mapping) or not filter.keys() <= FILTER.keys():
        raise Invalid(f"a filter has {', '.join(FILTER)}", field="filter")
    if expect is None:
        raise Invalid("a filter needs expect: how many items it should match", field="expect")
    most = check.whole(expect, "expect", low=1, high=check.BATCH_MAX)
    return {**asked, "filter": checked(**{**FILTER, **filter}), "expect": most}


def _args(verb: str, given: Mapping[str, Any]) -> dict[str, Any]:
    known = BULK[verb]
    if not isinstance(given, Mapping) or not given.keys() <= known.keys():
        raise Invalid(f"the args of {verb} are {', '.join(known)}", field="args")
    found = {
        name: check.flag(value, name) if name == "done" else check.optional_text(value, name)
        for name, value in given.items()
    }
    needed = {name: check.reason(found.get(name) or "", name) for name, is_needed in known.items() if is_needed}
    return {**found, **needed}


def _items(verb: str, given: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in check.batch(given):
        if not isinstance(one, Mapping) or not one.keys() <= {"id", "revision", "token"}:
            raise Invalid("each of the items has an id, and perhaps a revision or a token", field="items")
        id, token = check.item_id(one.get("id"), "items"), check.token(one.get("token"))
        if token is not None and verb not in TOKENED:
            raise Invalid(f"{verb} takes no token; give the revision", field="items", item=id)
        if id in found:
            raise Invalid(f"{id} is listed twice", field="items", item=id)
        fields = {"id": id, "revision": check.token(one.get("revision"), "revision"), "token": token}
        found[id] = {name: value for name, value in fields.items() if value is not None}
    if not found:
        raise Invalid("no items are given; list some, or give a filter", field="items")
    return list(found.values())


def checked_stretch(from_: object, to: object, since: object) -> dict[str, Any]:
    """A stretch of time: instants as milliseconds or as ISO 8601, or its length in seconds."""
    if from_ is not None and since is not None:
        raise Invalid("give from or since, not both", field="since")
    return {"from_": _instant(from_, "from"), "to": _instant(to, "to"), "since": _since(since)}


def _since(given: object) -> float | None:
    if given is None:
        return None
    try:
        return check.number(given, "since", low=SINCE_SECONDS_MIN, high=SINCE_SECONDS_MAX)
    except Invalid as error:
        low, high = times.span(SINCE_SECONDS_MIN), times.span(SINCE_SECONDS_MAX)
        raise Invalid(f"since must be between {low} and {high}", field="since") from error


def checked_owner(**given: str | None) -> dict[str, Any]:
    return {name: None if value is None else check.name(value, name) for name, value in given.items()}


def checked_step(step: object) -> float | None:
    return None if step is None else check.number(step, "step", low=STEP_SECONDS_MIN, high=STEP_SECONDS_MAX)


def _instant(given: object, field: str) -> int | None:
    is_number = isinstance(given, str) and given.isascii() and given.isdigit() and len(given) <= INSTANT_DIGITS_MAX
    return check.instant(int(given) if is_number else given, field)  # type: ignore[call-overload]


def _position(cursor: object, sort: str) -> str:
    text = check.text(cursor, "cursor", CURSOR_BYTES_MAX)
    order, *numbers = text.split(".")
    digits = [number.removeprefix("-") for number in numbers]
    is_position = len(numbers) == 2 and all(part.isascii() and part.isdigit() for part in digits)
    if order != sort or not is_position or any(abs(int(number)) >= 2**63 for number in numbers):
        raise Invalid("cursor must be `next` of the page before, in the same order", field="cursor")
    return text
