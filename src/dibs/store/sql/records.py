"""Validation of the records of a whole board.

An export or a backup may have been written by an attacker. Each field is checked as a verb would check it: an id
becomes a word in a shell, a file name and a line on a terminal, and a token near the largest integer would be the last
one that the board can give.
"""

from __future__ import annotations

from dibs import check, run_checks
from dibs.errors import Invalid
from dibs.model import STATUSES, Item, NewItem
from dibs.text import wire
from dibs.text.json_text import Encoded
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Check = Callable[[Any, str], object]

#: The end of the year 9999.
INSTANT_MAX = 253_402_300_799_999
SECONDS_MAX = 1e9
#: An event or a kept answer contains whole items, each with a body and a payload.
DATA_BYTES_MAX = 8 * check.TEXT_BYTES_MAX
DATA_DEPTH_MAX = check.JSON_DEPTH_MAX + 10
_CHECKS_OF: dict[type[Value], dict[str, Check]] = {}


def value_of(kind: type[Value], data: dict[str, Any]) -> Value:
    """Decode a record and check all its fields."""
    # Whoever took the record from an export may have changed it since, so a text that it has counts for nothing.
    given = {name: dict(held) if type(held) is Encoded else held for name, held in data.items()}
    value = wire.decode(kind, given)
    check_value(value)
    return value


def check_value(value: Value) -> None:
    checks = checks_of(type(value))
    for name, given in value.as_dict().items():
        if name in checks:
            checks[name](given, name)
    if isinstance(value, Item):
        check_content(value)


def checks_of(kind: type[Value]) -> dict[str, Check]:
    """How the fields of a record are checked. `check_content` checks the content of an item as a whole."""
    if kind in _CHECKS_OF:
        return _CHECKS_OF[kind]
    left_out = NewItem._names if issubclass(kind, Item) else ()
    found = _CHECKS_OF[kind] = {
        name: CHECKS[word] if kind._hints[name] == word else _optional(CHECKS[word])
        for name, word in kind._kinds.items()
        if name not in left_out
    }
    return found


def plain(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """The columns of a record that is not a value of the model, checked."""
    fields = PLAIN[kind]
    for name, check_field in fields.items():
        check_field(data[name], name)
    return {name: data[name] for name in fields}


def check_content(item: Item) -> None:
    """Check the content as `add` does, and that lists are normalized as `add` normalizes them."""
    given = {name: getattr(item, name) for name in NewItem._fields}
    added = check.new_item(given)
    for name, kind in NewItem._kinds.items():
        if kind in ("Names", "ItemIds", "Resources") and getattr(added, name) != given[name]:
            raise Invalid(f"{name} has a duplicate entry, or one that is not normalized", field=name)


# How a field is checked


def _optional(one: Check) -> Check:
    return lambda given, field: None if given is None else one(given, field)


def _number(low: float, high: float = SECONDS_MAX) -> Check:
    return lambda given, field: check.number(given, field, low=low, high=high)


def _whole(low: int, high: int = check.COUNT_MAX) -> Check:
    return lambda given, field: check.whole(given, field, low=low, high=high)


def _status(given: object, field: str) -> object:
    if given not in STATUSES:
        raise Invalid(f"unknown status {given!r:.60}; choose one of {', '.join(STATUSES)}", field=field)
    return given


def _text(bytes_max: int) -> Check:
    return lambda given, field: check.text(given, field, bytes_max)


def check_data(given: object, field: str) -> object:
    return check.json_object(given, field, DATA_BYTES_MAX, DATA_DEPTH_MAX)


def _answer(given: object, field: str) -> None:
    import json

    try:
        json.loads(check.text(given, field, DATA_BYTES_MAX))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{field} is not JSON", field=field) from error


def _checks(given: object, field: str) -> None:
    if run_checks.checked(given, check.JSON_BYTES_MAX) != given:
        raise Invalid(f"{field} maps the name of each check to its state and, optionally, its url", field=field)


def _owner(given: object, field: str) -> object:
    return check.owner(given)


_INSTANT = _whole(0, INSTANT_MAX)
_COUNT = _whole(0)
_NOTE = _text(check.NOTE_BYTES_MAX)
#: The kinds of which every whole number from 0 to `INSTANT_MAX` is one.
WHOLE = ("Instant", "Count")
#: How a field of a record is checked, by its kind.
CHECKS: dict[str, Check] = check.KINDS | {
    "AgentOrEmpty": lambda given, field: given if given == "" else check.agent_name(given, field),
    "Status": _status,
    "Actor": _NOTE,
    "Instant": _INSTANT,
    "Count": _COUNT,
    "Token": _whole(1),
    **dict.fromkeys(("Seconds", "Number"), _number(0)),
    "Meta": lambda given, field: check.json_object(given, field, check.META_BYTES_MAX),
    "Checks": _checks,
    "Facts": check_data,
    "Owner": _owner,
}
PLAIN: dict[str, dict[str, Check]] = {
    "board": {"token_floor": _COUNT, "event_floor": _COUNT, "conflicts": _COUNT},
    "dependency": {"item": check.item_id, "needs": check.item_id},
    "bucket": {"name": check.agent_name, "bucket": _number(-SECONDS_MAX), "bucket_at": _INSTANT},
    "request": {"actor": _NOTE, "id": check.name, "fingerprint": check.name, "answer": _answer, "at": _INSTANT},
}
