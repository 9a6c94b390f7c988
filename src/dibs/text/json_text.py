"""JSON without the module `json`, which with its regular expressions costs half the start of a bare interpreter.

`dumps` encodes plain data, of dibs or checked input. `loads` calls the library's scanner, which is written in C; the
library itself is imported for what the scanner refuses, and where there is no such scanner.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: The backslash first: the others add one.
_SHORT_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_OTHER_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x20), 0x7F)}
INFINITY = float("inf")


def line(data: Any, *, compact: bool = False) -> str:
    """One line of JSON in ASCII, which every terminal and encoding can show. `compact`: without spaces."""
    text = dumps(data, ",", ":") if compact else dumps(data)
    return text if text.isascii() else "".join(char if char.isascii() else _escaped(ord(char)) for char in text)


def dumps(data: Any, comma: str = ", ", colon: str = ": ") -> str:
    """Plain data as JSON. NaN, infinity, keys that are not text, and other types are refused."""
    if isinstance(data, dict):
        if not data:
            return "{}"  # what most columns hold
        # A list: `join` would make one of a generator, which takes longer.
        return (
            "{" + comma.join([f"{_key(key)}{colon}{dumps(value, comma, colon)}" for key, value in data.items()]) + "}"
        )
    if isinstance(data, str):
        return _quoted(data)
    if data is None:
        return "null"
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, int):
        return int.__repr__(data)
    if isinstance(data, float):
        if data != data or data in (INFINITY, -INFINITY):
            raise ValueError(f"{data} is not a JSON number")
        return float.__repr__(data)
    if isinstance(data, list | tuple):
        return "[" + comma.join([dumps(value, comma, colon) for value in data]) + "]"
    raise TypeError(f"{type(data).__name__} is not a JSON type")


def loads(text: str) -> Any:
    """As `json.loads`, with the same errors."""
    if text == "{}":  # what most columns of an item hold: the scanner is not even loaded for these
        return {}
    if text == "[]":
        return []
    global _scan
    try:
        if _scan is None:
            from _json import make_scanner

            _scan = make_scanner(_Options)  # type: ignore[arg-type]
        found, end = _scan(text, len(text) - len(text.lstrip(_SPACES)))
        if end == len(text) or not text[end:].strip(_SPACES):
            return found
    except (ImportError, StopIteration, AttributeError):
        pass
    import json

    return json.loads(text)


def measure(value: object, depth_max: int) -> tuple[int, int]:
    """The depth of nested data, counted up to one above the limit, and a lower bound of its size as text."""
    level, depth, size = [value], 0, 0
    while level and depth <= depth_max:
        for one in level:
            if isinstance(one, str):
                size += len(one)
            elif isinstance(one, int):
                size += one.bit_length() * 3 // 10
        level = [inner for outer in level for inner in _children(outer)]
        depth += 1
    return depth, size


def all_text(value: object) -> str:
    """All keys and texts of nested data."""
    if isinstance(value, dict):
        return "".join(key + all_text(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return "".join(map(all_text, value))
    return value if isinstance(value, str) else ""


_SPACES = " \t\n\r"
#: Made by the first use, because making one takes as long as scanning a column.
_scan: Any = None


class _Options:
    """The defaults of `json.loads`, under the names that the scanner asks for."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = {"NaN": float("nan"), "Infinity": INFINITY, "-Infinity": -INFINITY}.__getitem__


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key of a JSON object must be text, not {type(key).__name__}")
    return _quoted(key)


def _quoted(text: str) -> str:
    return f'"{text}"' if text.isidentifier() else f'"{_escape(text)}"'


def _escape(text: str) -> str:
    # `translate` alone looks up every character: ten times slower for a log of 100 KB.
    for char, escape in _SHORT_ESCAPES:
        text = text.replace(char, escape)
    return text if text.isprintable() else text.translate(_OTHER_ESCAPES)


def _escaped(code: int) -> str:
    """The escape of a character outside ASCII: a surrogate pair beyond 16 bits."""
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
