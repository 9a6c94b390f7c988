"""Values as plain JSON and back: the codec of everything that leaves the process (`--json`, HTTP, stored answers).

Instants (fields that end in `_at`, and `not_before`) are ISO 8601 on the wire and integers in values, without loss. A
whole number has no fraction, also where a store keeps it as a float: 1800, not 1800.0. A rate keeps its fraction.
"""

from __future__ import annotations

from dibs.errors import DibsError
from dibs.text import times
from dibs.value import Late, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    V = TypeVar("V", bound=Value)
    Fields = tuple[tuple[str, frozenset[type], Callable[[object, str], Any]], ...]

#: Fields that hold a caller's own JSON, which is passed on as it is.
OPAQUE = frozenset({"payload", "meta", "links", "cost"})
#: Types that are JSON as they are.
_PLAIN: frozenset[type] = frozenset({str, bool, type(None)})
#: For each class of values, its fields: the name, the types that are JSON as they are there, what encodes the others.
_FIELDS: dict[type[Value], Fields] = {}


def encode(value: object, name: str = "") -> Any:
    """A value, a collection of values or plain data, as data that `json.dumps` takes."""
    # The order is by how often a view has each kind: it has tens of thousands of fields.
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return times.iso(value) if is_instant(name) else value  # type: ignore[arg-type]
    if not value and kind is tuple:
        return []
    if kind is float:
        is_whole = value.is_integer() and not name.endswith("_rate") and name not in OPAQUE  # type: ignore[attr-defined]
        return int(value) if is_whole else value  # type: ignore[call-overload]
    if isinstance(value, Value):
        # Most fields are plain: a call for each would take twice the time.
        own, fields = value.__dict__, _FIELDS.get(type(value)) or _fields(type(value))
        return {
            field: inner if type(inner := own[field]) in plain else encode_field(inner, field)
            for field, plain, encode_field in fields
        }
    if name in OPAQUE:
        return value.made() if kind is Late else value  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {key: encode(inner, key) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [inner if type(inner) in _PLAIN else encode(inner, name) for inner in value]
    return value


def _fields(kind: type[Value]) -> Fields:
    found = _FIELDS[kind] = tuple(
        (name, _PLAIN, _instant) if is_instant(name) else (name, _PLAIN | {int}, encode) for name in kind._fields
    )
    return found


def _instant(value: object, name: str) -> Any:
    return times.iso(value) if type(value) is int else encode(value, name)


def decode(kind: type[V], data: dict[str, Any]) -> V:
    """The value that `encode` turned into `data`, in this version or another one, without the fields of a newer one."""
    nested = kind.nested()
    return kind.of_known({name: _decoded(name, value, nested.get(name)) for name, value in data.items()})


def error(refusal: DibsError) -> dict[str, Any]:
    """A refusal for programs."""
    return {"error": {"code": refusal.code, "message": refusal.message, **encode(refusal.facts)}}


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """The reverse of `encode` for plain data, such as the facts of a refusal."""
    return {name: _inner(name, value) for name, value in data.items()}


def is_instant(name: str) -> bool:
    return name.endswith("_at") or name in ("at", "not_before")


def _decoded(name: str, value: Any, kind: type[Value] | None) -> Any:
    if kind is not None:
        if isinstance(value, list):
            return tuple(decode(kind, one) for one in value)
        return None if value is None else decode(kind, value)
    if name in OPAQUE:
        return value
    if isinstance(value, dict):
        return plain(value)
    # `ready` of Stats and Pulse is a list in the model; every other sequence is a tuple.
    return tuple(value) if isinstance(value, list) and name != "ready" else _inner(name, value)


def _inner(name: str, value: Any) -> Any:
    """Plain data inside a value: instants become integers, everything else stays as it is."""
    if is_instant(name) and isinstance(value, str):
        return times.parse_instant(value)
    return plain(value) if isinstance(value, dict) and name not in OPAQUE else value
