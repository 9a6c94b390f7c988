"""Rows of the database as values of the model, and back. JSON columns are text in rows and data in values."""

from __future__ import annotations

from dibs.errors import StoreUnusable
from dibs.model import ENDED, Activity, Agent, Blocker, Claim, Event, Item, Key, Owner, Run, Session, SoftClaim, Ticket
from dibs.text import json_text
from dibs.text.json_text import dumps
from dibs.value import Late, LateField, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from typing import Any, TypeVar

    from dibs.store.sql.transaction import Transaction

    Row = tuple[Any, ...]
    T = TypeVar("T")
    V = TypeVar("V", bound=Value)

#: A payload of so many characters is decoded when it is first read.
LATE_MIN = 2000
#: The status of a dependency that a file of a vault names and that does not exist yet.
MISSING = "missing"
#: What a decoder of JSON raises.
NO_JSON = (AttributeError, TypeError, ValueError, RecursionError)
#: For each class of values, the fields that are JSON in a row.
_JSON_FIELDS: dict[type[Value], tuple[str, ...]] = {}


def encode(value: Value) -> dict[str, Any]:
    """A value as statement parameters."""
    kind, fields = type(value), value.__dict__
    columns = dict(fields)
    for name in _JSON_FIELDS[kind] if kind in _JSON_FIELDS else _json_fields(kind):
        held = fields[name]
        columns[name] = held.source if type(held) is Late else dumps(held)
    return columns


def plain(value: Value) -> dict[str, Any]:
    """A value as parameters of a statement that uses none of its JSON columns, so that nothing is encoded."""
    return value.__dict__


def item_with_run(row: Row) -> tuple[Item, Run | None]:
    """An item with its latest run, of columns that follow one another and are all null without one."""
    after_item = len(Item._fields)
    return item(row[:after_item]), None if row[after_item] is None else run(row[after_item:])


def item_with_claim(row: Row) -> tuple[Item, Claim | None]:
    """An item with its claim, of columns that follow one another and are all null without one."""
    after_item = len(Item._fields)
    return item(row), None if row[after_item] is None else claim(row[after_item:])


def item_with_claim_and_run(row: Row) -> tuple[Item, Claim | None, Run | None]:
    after_item = len(Item._fields)
    after_claim = after_item + len(Claim._fields)
    return (
        item(row[:after_item]),
        None if row[after_item] is None else claim(row[after_item:after_claim]),
        None if row[after_claim] is None else run(row[after_claim:]),
    )


def blocker(item: str, status: str) -> Blocker:
    return Blocker(item=item, status=status, will_move=status not in (*ENDED, MISSING))


def session(row: Row) -> Session:
    """A session, whose owner is in the columns of its fields, all null without one."""
    start = Session._fields.index("owner")
    end = start + len(Owner._fields)
    owner = None if row[start] is None else Owner.of_row(row[start:end])
    return _session((*row[:start], owner, *row[end:]))


def encode_session(value: Session) -> dict[str, Any]:
    columns = encode(value)
    owner = columns.pop("owner")
    return columns | (dict.fromkeys(Owner._fields) if owner is None else owner.as_dict())


def until_size(
    size_max: int | None, t: Transaction, statement: str, /, *, passed_over: Container[str] = (), **parameters: Any
) -> tuple[list[Row], bool]:
    """The rows of a statement until their texts have this many characters, and whether rows are left. Rows whose first
    column is in `passed_over` are skipped."""
    if size_max is None:
        return [row for row in t.all(statement, **parameters) if row[0] not in passed_over], False
    found: list[Row] = []
    size = 0
    for row in t.each(statement, **parameters):
        if row[0] in passed_over:
            continue
        if size >= size_max:
            return found, True
        found.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
    return found, False


def grouped(pairs: Iterable[tuple[str, T]]) -> dict[str, tuple[T, ...]]:
    found: dict[str, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def loads(text: str) -> Any:
    """The data of a JSON column. Only in a damaged board it is not JSON."""
    try:
        return json_text.loads(text)
    except NO_JSON as error:
        raise _damaged("no JSON", error) from error


def stored(text: str) -> dict[str, Any]:
    """An object, and a long one with its text."""
    return _object(text, json_text.stored)


def names(text: str) -> tuple[str, ...]:
    if text == "[]":
        return ()
    found = loads(text)
    if type(found) is not list:
        raise _damaged("no list")
    return tuple(found)


def _object(text: str, decode: Callable[[str], Any] = json_text.loads) -> dict[str, Any]:
    if text == "{}":
        return {}
    try:
        found: dict[str, Any] = decode(text)
    except NO_JSON as error:
        raise _damaged("no JSON", error) from error
    if not isinstance(found, dict):
        raise _damaged("no object")
    return found


def _late_object(text: str) -> Any:
    if text == "{}":
        return {}
    return Late(stored, text) if isinstance(text, str) and len(text) >= LATE_MIN else _object(text)


def _damaged(what: str, error: Exception | None = None) -> StoreUnusable:
    why = "" if error is None else f" ({error})"
    return StoreUnusable(f"the board is damaged: a row contains {what} where it should{why}; restore a backup")


#: What reads a field, by its kind. A field of another kind is in a row as it is in a value.
READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("Names", "ItemIds", "Resources", "Texts"), names),
    **dict.fromkeys(("Json", "Meta", "Checks"), stored),
    "Facts": _object,
    "Flag": bool,
}


def _json_fields(kind: type[Value]) -> tuple[str, ...]:
    found = tuple(name for name, word in kind._kinds.items() if READ.get(word, bool) is not bool)
    _JSON_FIELDS[kind] = found
    return found


def reader(kind: type[V]) -> Callable[[Row], V]:
    """Makes values of this class from the first columns of rows."""
    of_row = kind.of_row
    reads = [
        (name, _late_object if type(vars(kind).get(name)) is LateField else READ[word])
        for name, word in kind._kinds.items()
        if word in READ
    ]
    if not reads:
        return of_row

    def read_row(row: Row) -> V:
        made = of_row(row)
        fields = made.__dict__
        for name, read in reads:
            fields[name] = read(fields[name])
        return made

    return read_row


item, claim, run, event, activity = reader(Item), reader(Claim), reader(Run), reader(Event), reader(Activity)
agent, ticket, soft_claim, key = reader(Agent), reader(Ticket), reader(SoftClaim), reader(Key)
_session = reader(Session)
