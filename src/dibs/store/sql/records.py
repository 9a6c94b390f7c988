"""Validation of the records of a whole board.

An export or a backup may have been written by an attacker. Each field is checked as a verb would check it: an id
becomes a word in a shell, a file name and a line on a terminal, and a token near the largest integer would be the last
one that the board can give.
"""

from __future__ import annotations

from dibs import check, run_checks
from dibs.errors import Invalid
from dibs.model import STATUSES, Activity, Agent, Claim, Event, Item, NewItem, Run, Session, SoftClaim, Ticket
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


def value_of(kind: type[Value], data: dict[str, Any]) -> Value:
    """Decode a record and check all its fields."""
    # Whoever took the record from an export may have changed it since, so a text that it has counts for nothing.
    given = {name: dict(held) if type(held) is Encoded else held for name, held in data.items()}
    value = wire.decode(kind, given)
    check_value(value)
    return value


def check_value(value: Value) -> None:
    fields = FIELDS[type(value)]
    for name, given in value.as_dict().items():
        fields[name](given, name)
    if isinstance(value, Item):
        check_content(value)


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
    for name in ("labels", "depends_on", "resources"):
        if getattr(added, name) != given[name]:
            raise Invalid(f"{name} has a duplicate entry, or one that is not normalized", field=name)


# How a field is checked


def _optional(one: Check) -> Check:
    return lambda given, field: None if given is None else one(given, field)


def _item(given: object, field: str) -> object:
    return check.item_id(given, field)


def _agent(given: object, field: str) -> object:
    return check.agent_name(given)


def _agent_or_none(given: object, field: str) -> object:
    """The agent of a refused call is '' if its session did not exist."""
    return given if given == "" else _agent(given, field)


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


def _any(given: object, field: str) -> None:
    """Accept anything: `check_content` checks the content as a whole."""


_INSTANT = _whole(0, INSTANT_MAX)
_COUNT = _whole(0)
_TOKEN = _whole(1)
#: What every whole number from 0 to `INSTANT_MAX` passes.
WHOLE = frozenset({_INSTANT, _COUNT})
_NOTE = _text(check.NOTE_BYTES_MAX)
_LEASE: dict[str, Check] = {"item": _item, "session": check.name, "agent": _agent, "ttl_seconds": _number(0)}

FIELDS: dict[type[Value], dict[str, Check]] = {
    Agent: {
        "name": _agent,
        "types": check.names,
        "role": _optional(check.name),
        "max_claims": _optional(_COUNT),
        "max_claims_total": _optional(_COUNT),
        "claims_per_minute": _optional(_number(0)),
        "claims_burst": _COUNT,
        "allowed_actions": check.names,
        "sensitive_actions": check.names,
        "created_at": _INSTANT,
        "updated_at": _INSTANT,
    },
    Session: {
        "id": check.name,
        "agent": _agent,
        "kind": check.name,
        "host": _NOTE,
        "owner": _optional(_owner),
        "meta": lambda given, field: check.json_object(given, field, check.META_BYTES_MAX),
        "started_at": _INSTANT,
        "seen_at": _INSTANT,
        "ended_at": _optional(_INSTANT),
        "end_reason": _optional(_NOTE),
        "key": _optional(check.name),
        "parent": _optional(check.name),
    },
    Item: {
        **dict.fromkeys(NewItem._fields, _any),
        "approved": check.flag,
        "status": _status,
        "created_by": _NOTE,
        "created_at": _INSTANT,
        "updated_at": _INSTANT,
        "attempts": _COUNT,
        "strikes": _COUNT,
        "failures": _COUNT,
        "token": _COUNT,
        "revision": _TOKEN,
        "offered_to": _optional(check.name),
        "offer_expires_at": _optional(_INSTANT),
    },
    Claim: {
        **_LEASE,
        "token": _TOKEN,
        "claimed_at": _INSTANT,
        "renewed_at": _INSTANT,
        "expires_at": _INSTANT,
        "deadline_at": _INSTANT,
        "heartbeat_count": _COUNT,
    },
    SoftClaim: {**_LEASE, "claimed_at": _INSTANT, "expires_at": _INSTANT},
    Ticket: {
        **_LEASE,
        "since_at": _INSTANT,
        "expires_at": _INSTANT,
        "closed_at": _optional(_INSTANT),
        "reason": _optional(_NOTE),
        "id": _COUNT,
    },
    Run: {
        "item": _item,
        "token": _TOKEN,
        "session": check.name,
        "agent": _agent,
        "started_at": _INSTANT,
        "ended_at": _optional(_INSTANT),
        "outcome": _optional(check.name),
        "reason": _optional(_text(check.TEXT_BYTES_MAX)),
        "draft": _optional(_text(check.TEXT_BYTES_MAX)),
        "links": check.json_object,
        "cost": check.json_object,
        "checks": _checks,
    },
    Event: {
        "item": _item,
        "number": _TOKEN,
        "kind": check.name,
        "at": _INSTANT,
        "status": _status,
        "token": _COUNT,
        "actor": _NOTE,
        "session": _optional(check.name),
        "agent": _optional(_agent),
        "data": check_data,
        "id": _COUNT,
    },
    Activity: {
        "at": _INSTANT,
        "item": _item,
        "session": check.name,
        "agent": _agent_or_none,
        "action": check.name,
        "code": check.name,
        "details": check_data,
        "id": _COUNT,
    },
}
PLAIN: dict[str, dict[str, Check]] = {
    "board": {"token_floor": _COUNT, "event_floor": _COUNT, "conflicts": _COUNT},
    "dependency": {"item": _item, "needs": _item},
    "bucket": {"name": _agent, "bucket": _number(-SECONDS_MAX), "bucket_at": _INSTANT},
    "request": {"actor": _NOTE, "id": check.name, "fingerprint": check.name, "answer": _answer, "at": _INSTANT},
}
