"""Rows of the database as values of the model, and back. JSON columns are text in rows and data in values."""

from __future__ import annotations

from dibs.errors import StoreUnusable
from dibs.model import ENDED, Activity, Agent, Blocker, Claim, Event, Item, Key, Owner, Run, Session, SoftClaim, Ticket
from dibs.text import json_text
from dibs.text.json_text import dumps
from dibs.value import Late, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from typing import Any, TypeVar

    from dibs.store.sql.transaction import Transaction

    Row = tuple[Any, ...]
    T = TypeVar("T")

#: By the kind of a value, the columns that are JSON.
_JSON_COLUMNS: dict[type[Value], list[str]] = {}
#: A payload of so many characters is decoded when it is first read.
LATE_MIN = 2000
#: The status of a dependency that a file of a vault names and that does not exist yet.
MISSING = "missing"


def encode(value: Value) -> dict[str, Any]:
    """A value as statement parameters."""
    kind, fields = type(value), value.__dict__
    if kind not in _JSON_COLUMNS:
        _JSON_COLUMNS[kind] = [name for name, hint in kind._hints.items() if hint.startswith(("dict", "tuple"))]
    columns = dict(fields)
    for name in _JSON_COLUMNS[kind]:
        held = fields[name]
        columns[name] = held.source if type(held) is Late else dumps(held)
    return columns


def plain(value: Value) -> dict[str, Any]:
    """A value as parameters of a statement that uses none of its JSON columns, so that nothing is encoded."""
    return value.__dict__


def item(row: Row) -> Item:
    made = Item.of_row(row)
    fields = made.__dict__
    payload = fields["payload"]
    is_late = isinstance(payload, str) and len(payload) >= LATE_MIN
    fields["payload"] = Late(stored, payload) if is_late else loads(payload)
    for name in ("labels", "depends_on", "resources"):
        fields[name] = names(fields[name])
    for name in ("needs_approval", "approved", "review"):
        fields[name] = bool(fields[name])
    return made


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


def claim(row: Row) -> Claim:
    return Claim.of_row(row)


def run(row: Row) -> Run:
    made = Run.of_row(row)
    fields = made.__dict__
    for name in ("links", "cost", "checks"):
        fields[name] = stored(fields[name])
    return made


def ticket(row: Row) -> Ticket:
    return Ticket.of_row(row)


def soft_claim(row: Row) -> SoftClaim:
    return SoftClaim.of_row(row)


def event(row: Row) -> Event:
    made = Event.of_row(row)
    fields = made.__dict__
    fields["data"] = loads(fields["data"])
    return made


def activity(row: Row) -> Activity:
    made = Activity.of_row(row)
    fields = made.__dict__
    fields["details"] = loads(fields["details"])
    return made


def agent(row: Row) -> Agent:
    made = Agent.of_row(row)
    fields = made.__dict__
    for name in ("types", "allowed_actions", "sensitive_actions"):
        fields[name] = names(fields[name])
    return made


def session(row: Row) -> Session:
    id, agent, kind, host, boot_id, pid_namespace, pid, start_time, meta, *times = row
    owner = None
    if boot_id is not None:
        owner = Owner(boot_id=boot_id, pid_namespace=pid_namespace, pid=pid, start_time=start_time)
    return Session.of(dict(zip(Session._fields, (id, agent, kind, host, owner, stored(meta), *times), strict=True)))


def encode_session(value: Session) -> dict[str, Any]:
    owner = value.owner
    fields = encode(value.replace(owner=None))
    del fields["owner"]
    nothing = dict.fromkeys(Owner._fields)
    return {**fields, **(nothing if owner is None else owner.as_dict())}


def key(row: Row) -> Key:
    return Key.of_row(row)


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
    return _decoded(json_text.loads, text)


def stored(text: str) -> dict[str, Any]:
    """An object, and a long one with its text."""
    found: dict[str, Any] = _decoded(json_text.stored, text)
    return found


def _decoded(decode: Callable[[str], Any], text: str) -> Any:
    """The data of a JSON column. Only in a damaged board it is not JSON."""
    try:
        return decode(text)
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        text = f"the board is damaged: a row contains no JSON where it should ({error}); restore a backup"
        raise StoreUnusable(text) from error


def names(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(loads(text))
