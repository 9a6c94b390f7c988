"""JSON without the module `json`, which with its regular expressions costs half the start of a bare interpreter.

`dumps` encodes plain data, of dibs or checked input. `encoded` and `loads` call the encoder and the scanner of the
library that are written in C; it is itself imported for what the scanner refuses, and where these do not exist.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The backslash first: the others add one.
_SHORT_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_OTHER_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x20), 0x7F)} | {8: "\\b", 12: "\\f"}
_DELETE = "\x7f"
#: Longer texts are worth the import of the encoder in C, and their objects are worth a second copy.
_LONG = 1000
#: So are lists of more texts.
_MANY = 16
_COMMA, _COLON = ", ", ": "
INFINITY = float("inf")


class Encoded(dict):  # type: ignore[type-arg]  # at run time there is no `Any`
    """A JSON object with its text, so that no encoder runs while a store holds a lock. Callers may change an object
    that they were given, so every check of a parameter or a record makes a new one."""

    __slots__ = ("text",)

    def __init__(self, data: dict[str, Any], text: str) -> None:
        super().__init__(data)
        self.text = text


def encoded(data: dict[str, Any]) -> Encoded:
    """Plain data with its text, which is that of `dumps`. Data that is not JSON raises what `json.dumps` raises. Every
    key must be text: see `measure`."""
    text = _encode_in_c(data)
    return Encoded(loads(text), text)


def stored(text: str) -> dict[str, Any]:
    """The object of a stored text, and a long one with that text. A program that writes SQL may have written it on
    several lines: then it is encoded again."""
    found: dict[str, Any] = loads(text)
    # Of a list of words with two letters each, `dict` makes an object.
    if type(found) is not dict or len(text) <= _LONG or "\n" in text or "\r" in text or _DELETE in text:
        return found
    return Encoded(found, text)


def as_object(given: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping as an object, with its text if it has one."""
    return given if isinstance(given, dict) else {**given}


def merged(known: dict[str, Any], given: dict[str, Any] | None) -> dict[str, Any]:
    """`known` with the entries of `given`, without encoding either of them again if the other one is empty."""
    if not (known and given):
        return given or known
    return encoded({**known, **given})


def line(data: Any, *, compact: bool = False) -> str:
    """One line of JSON in ASCII, which every terminal and encoding can show. `compact`: without spaces."""
    text = dumps(data, ",", ":") if compact else dumps(data)
    return text if text.isascii() else "".join(char if char.isascii() else _escaped(ord(char)) for char in text)


def dumps(data: Any, comma: str = _COMMA, colon: str = _COLON) -> str:
    """Plain data as JSON. NaN, infinity, keys that are not text, and other types are refused."""
    if isinstance(data, dict):
        if not data:
            return "{}"  # what most columns hold
        if type(data) is Encoded and comma == _COMMA:
            return data.text
        # A list: `join` would make one of a generator, which takes longer. Most values are text or nothing, for which
        # a call of `dumps` would take half as long again.
        entries = [
            f"{_key(key)}{colon}"
            f"{_quoted(value) if type(value) is str else 'null' if value is None else dumps(value, comma, colon)}"
            for key, value in data.items()
        ]
        return "{" + comma.join(entries) + "}"
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
        if not data:
            return "[]"
        if len(data) > _MANY and comma == _COMMA and set(map(type, data)) == {str}:
            return _encode_in_c(data)
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


def measure(value: object, depth_max: int) -> tuple[int, int, bool]:
    """The depth of nested data, counted up to one above the limit, a lower bound of its size as text, and whether every
    key is text. JSON's encoder writes other keys as text, so what is read back would have other keys than were given.
    """
    level, depth, size, has_text_keys = [value], 0, 0, True
    while level and depth <= depth_max:
        depth += 1
        if set(map(type, level)) == {str}:
            # The usual case of a large object, without a step of Python for each text: others wait for the interpreter.
            return depth, size + sum(map(len, level)), has_text_keys  # type: ignore[arg-type]
        inner: list[object] = []
        for one in level:
            if isinstance(one, str):
                size += len(one)
            elif isinstance(one, dict):
                has_text_keys = has_text_keys and all(issubclass(kind, str) for kind in set(map(type, one)))
                inner.extend(one.values())
            elif isinstance(one, list | tuple):
                inner.extend(one)
            elif isinstance(one, int):
                size += one.bit_length() * 3 // 10
        level = inner
    return depth, size, has_text_keys


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
_encode: Any = None


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


def _encode_in_c(data: object) -> str:
    global _encode
    try:
        if _encode is None:
            from _json import encode_basestring, make_encoder

            _encode = make_encoder(None, _refuse, encode_basestring, None, _COLON, _COMMA, False, False, False)
        text = "".join(_encode(data, 0))
    except (ImportError, AttributeError):
        import json

        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return text.replace(_DELETE, _OTHER_ESCAPES[0x7F])


def _refuse(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def _quoted(text: str) -> str:
    if len(text) > _LONG:
        return _encode_in_c(text)
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
