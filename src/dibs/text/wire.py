"""Values as plain JSON and back: the codec of everything that leaves the process (`--json`, HTTP, stored answers).

Instants are ISO 8601 on the wire and integers in values, without loss. A whole number has no fraction, also where a
store keeps it as a float: 1800, not 1800.0. A rate keeps its fraction.

The kind of a field says which it is. Only in untyped data, such as the facts of a refusal or of an event, the name
does: instants end in `_at`, and the names in `OPAQUE` hold a caller's own JSON, which is passed on as it is.
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
    #: What turns a field, or None for one that is the same on the wire and in a value.
    Turn = Callable[[Any], Any] | None

OPAQUE = frozenset({"payload", "meta", "links", "cost"})
#: Types that are JSON as they are.
_PLAIN: frozenset[type] = frozenset({str, bool, type(None)})
#: For each class of values, what encodes and what decodes each field.
_ENCODERS: dict[type[Value], tuple[tuple[str, Turn], ...]] = {}
_DECODERS: dict[type[Value], dict[str, Turn]] = {}


def encode(value: object, name: str = "") -> Any:
    """A value, a collection of values or plain data, as data that `json.dumps` takes. The name is that of plain data
    in its object."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return times.iso(value) if is_instant(name) else value  # type: ignore[arg-type]
    if kind is float:
        return value if name.endswith("_rate") or name in OPAQUE else _number(value)  # type: ignore[arg-type]
    if isinstance(value, Value):
        return _encoded(value)
    if name in OPAQUE:
        return _opaque(value)
    if isinstance(value, dict):
        return {key: encode(inner, key) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [inner if type(inner) in _PLAIN else encode(inner, name) for inner in value]
    return value


def decode(kind: type[V], data: dict[str, Any]) -> V:
    """The value that `encode` turned into `data`, in this version or another one, without the fields of a newer one."""
    if kind not in _DECODERS:
        _learn(kind)
    turns = _DECODERS[kind]
    return kind(
        **{
            name: held if (turn := turns[name]) is None or held is None else turn(held)
            for name, held in data.items()
            if name in turns
        }
    )


def error(refusal: DibsError) -> dict[str, Any]:
    """A refusal for programs."""
    return {"error": {"code": refusal.code, "message": refusal.message, **encode(refusal.facts)}}


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """The reverse of `encode` for plain data, such as the facts of a refusal."""
    return {name: _inner(name, value) for name, value in data.items()}


def is_instant(name: str) -> bool:
    return name.endswith("_at") or name in ("at", "not_before")


def _inner(name: str, value: Any) -> Any:
    """Plain data inside a value: instants become integers, everything else stays as it is."""
    if is_instant(name) and isinstance(value, str):
        return times.parse_instant(value)
    return plain(value) if isinstance(value, dict) and name not in OPAQUE else value


def _encoded(value: Value) -> dict[str, Any]:
    kind, own = type(value), value.__dict__
    if kind not in _ENCODERS:
        _learn(kind)
    # A view has tens of thousands of fields, most of them plain: a call for each would take twice the time.
    return {name: own[name] if turn is None or own[name] is None else turn(own[name]) for name, turn in _ENCODERS[kind]}


def _learn(kind: type[Value]) -> None:
    nested = kind.nested()
    turns = {
        name: (_encoded_all, _decoder(nested[name])) if name in nested else TURNS.get(word, (None, None))
        for name, word in kind._kinds.items()
    }
    _ENCODERS[kind] = tuple((name, turn) for name, (turn, _) in turns.items())
    _DECODERS[kind] = {name: turn for name, (_, turn) in turns.items()}


def _encoded_all(value: Any) -> Any:
    return [_encoded(one) for one in value] if isinstance(value, list | tuple) else _encoded(value)


def _decoder(kind: type[Value]) -> Callable[[Any], Any]:
    return lambda data: tuple(decode(kind, one) for one in data) if isinstance(data, list) else decode(kind, data)


def _number(value: float) -> float:
    return int(value) if type(value) is float and value.is_integer() else value


def _numbers(value: Any) -> Any:
    """Lists and objects of numbers and text, whose names mean nothing."""
    if isinstance(value, dict):
        return {key: _numbers(inner) for key, inner in value.items()}
    return [_numbers(inner) for inner in value] if isinstance(value, list | tuple) else _number(value)


def _opaque(value: Any) -> Any:
    return value.made() if type(value) is Late else value


def _milliseconds(value: Any) -> Any:
    return times.parse_instant(value) if isinstance(value, str) else value


def _facts(value: Any) -> Any:
    return plain(value) if isinstance(value, dict) else value


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _tuples(value: Any) -> Any:
    return {key: _tuple(inner) for key, inner in value.items()} if isinstance(value, dict) else value


#: What encodes and what decodes a field, by its kind. A field of another kind is on the wire as it is in a value.
TURNS: dict[str, tuple[Turn, Turn]] = {
    "Instant": (times.iso, _milliseconds),
    **dict.fromkeys(("Seconds", "Number"), (_number, None)),
    **dict.fromkeys(("Names", "ItemIds", "Resources", "Texts", "Rows"), (list, _tuple)),
    "Json": (_opaque, None),
    "Facts": (encode, _facts),
    **dict.fromkeys(("Groups", "Numbers", "Columns"), (_numbers, None)),
    **dict.fromkeys(("Beats", "Queues"), (_numbers, _tuples)),
}
