"""JSON without the module `json`, which with the regular expressions it imports costs half a bare interpreter's start.

`dumps` writes plain data: what dibs itself puts together, and what callers gave after it was checked. `loads` reads the
two empty texts by itself, which is all a claim meets most of the time, and leaves everything else to the library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x20), 0x7F)}
_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
INFINITY = float("inf")


def line(data: Any) -> str:
    """One line of JSON for whoever reads our output: ASCII only, so that no terminal and no encoding can stumble."""
    text = dumps(data)
    return text if text.isascii() else "".join(char if char.isascii() else _escaped(ord(char)) for char in text)


def dumps(data: Any) -> str:
    """Plain data as JSON; a float that is no number, a key that is no text and any other type are refused."""
    if isinstance(data, str):
        return f'"{data.translate(_ESCAPES)}"'
    if data is None:
        return "null"
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, int):
        return int.__repr__(data)
    if isinstance(data, float):
        if data != data or data in (INFINITY, -INFINITY):
            raise ValueError(f"{data} is no number in JSON")
        return float.__repr__(data)
    if isinstance(data, dict):
        return "{" + ", ".join(f"{_key(key)}: {dumps(value)}" for key, value in data.items()) + "}"
    if isinstance(data, list | tuple):
        return "[" + ", ".join(map(dumps, data)) + "]"
    raise TypeError(f"{type(data).__name__} is no JSON")


def loads(text: str) -> Any:
    if text == "{}":
        return {}
    if text == "[]":
        return []
    import json

    return json.loads(text)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key of a JSON object is text, not {type(key).__name__}")
    return dumps(key)


def _escaped(code: int) -> str:
    """A character outside ASCII, as JSON writes it: those beyond 16 bits as two halves."""
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
