"""Parsing untrusted text: YAML, JSON, and regular expressions that are compiled on first use.

YAML is parsed by its events: no object is constructed, and depth and aliases are limited. The result is plain data.
Only the scalars of JSON are more than text: a date is text, and so is `yes`. Tags, merge keys, repeated keys, aliases
of collections and deep nesting are refused.

Importing `re` costs a command more than all modules of the vault, and most claims need no expression.
"""

from __future__ import annotations

from dibs.errors import StoreUnusable
from dibs.text import json_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any

#: Checked by the caller.
BYTES_MAX = 64 * 1024
DEPTH_MAX = 20
ALIASES_MAX = 20
NEEDS_YAML = "front matter like this needs PyYAML; get it with: pip install 'calldibs[vault]'"

_CONSTANTS = {"": None, "~": None} | {
    spelling: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
}
#: Line ends only for YAML: with them, `front_matter` and YAML would count different lines.
_ODD_LINE_ENDS = ("\x85", "\u2028", "\u2029")


class Unreadable(Exception):
    """A text that cannot be parsed, and so is not changed; with the reason."""


class Entry(Value):
    """One key of the first level: its value, the text of a scalar value, the line of the key, and where the value
    ends."""

    key: str
    value: Any
    text: str | None
    line: int
    end: tuple[int, int]


def entries(text: str) -> list[Entry]:
    """The first level of a block mapping, in order."""
    if any(odd in text for odd in _ODD_LINE_ENDS) or "\r" in text.replace("\r\n", ""):
        raise Unreadable("the front matter has unusual line ends; use plain ones")
    yaml = _yaml()
    reader = _Reader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text))
    try:
        return reader.first_level()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 2}"
        raise Unreadable(f"the front matter is broken{where}: {getattr(error, 'problem', None) or error}") from error
    finally:
        reader.dispose()


def plain(text: str) -> Any:
    """The value of a scalar without quotes."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return json_value(text, text) if text[0] in "-0123456789" else text


def json_value(text: str, otherwise: Any) -> Any:
    """Parse JSON, refusing repeated keys; `otherwise` if it is invalid."""
    if text in ("{}", "[]"):
        return json_text.loads(text)
    import json

    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError):
        return otherwise


class _Reader:
    """Builds data from the parser's events."""

    def __init__(self, loader: Any) -> None:
        self.next = loader.get_event
        self.dispose = loader.dispose
        self.anchors: dict[str, tuple[Any, str]] = {}
        self.aliases = 0

    def first_level(self) -> list[Entry]:
        self.next()
        event = self.next()
        if _kind(event) == "StreamEnd":
            return []
        if event.explicit:
            raise Unreadable("the front matter has more than one document")
        if _kind(event := self.next()) != "MappingStart" or event.flow_style or event.tag is not None:
            raise Unreadable("the front matter is not a mapping with one key a line")
        found = self._entries()
        if self.next().explicit or _kind(self.next()) != "StreamEnd":
            raise Unreadable("the front matter has more than one document")
        return found

    def _entries(self) -> list[Entry]:
        found: dict[str, Entry] = {}
        while _kind(event := self.next()) != "MappingEnd":
            key, line = self._key(event, found), event.start_mark.line
            if event.start_mark.column:
                raise Unreadable(f"{key[:60]!r} does not stand at the start of its line")
            value, text, end = self._value(self.next(), depth=1)
            found[key] = Entry(key=key, value=value, text=text, line=line, end=(end.line, end.column))
        return list(found.values())

    def _value(self, event: Any, depth: int) -> tuple[Any, str | None, Any]:
        """The value that begins with this event, its text if it is a scalar, and its end."""
        if depth > DEPTH_MAX:
            raise Unreadable(f"the front matter is nested more than {DEPTH_MAX} deep")
        kind = _kind(event)
        if kind == "Alias":
            return (*self._alias(event), event.end_mark)
        if event.tag is not None:
            raise Unreadable(f"the front matter has a tag: {event.tag[:60]}")
        if kind == "Scalar":
            value = event.value if event.style else plain(event.value)
            if event.anchor is not None:
                self.anchors[event.anchor] = (value, event.value)
            return value, event.value, event.end_mark
        value, last = self._list(depth) if kind == "SequenceStart" else self._mapping(depth)
        return value, None, last.end_mark

    def _list(self, depth: int) -> tuple[list[Any], Any]:
        found = []
        while _kind(event := self.next()) != "SequenceEnd":
            found.append(self._value(event, depth + 1)[0])
        return found, event

    def _mapping(self, depth: int) -> tuple[dict[str, Any], Any]:
        found: dict[str, Any] = {}
        while _kind(event := self.next()) != "MappingEnd":
            key = self._key(event, found)
            found[key] = self._value(self.next(), depth + 1)[0]
        return found, event

    def _key(self, event: Any, others: dict[str, Any]) -> str:
        if _kind(event) != "Scalar" or event.tag is not None:
            raise Unreadable("the front matter has a key that is not text")
        key: str = event.value
        if key == "<<" and not event.style:
            raise Unreadable("the front matter has a merge key")
        if key in others:
            raise Unreadable(f"the front matter has the key {key[:60]!r} twice")
        return key

    def _alias(self, event: Any) -> tuple[Any, str]:
        self.aliases += 1
        if self.aliases > ALIASES_MAX:
            raise Unreadable(f"the front matter has more than {ALIASES_MAX} aliases")
        if event.anchor not in self.anchors:
            raise Unreadable("the front matter has an alias that is not of a scalar")
        return self.anchors[event.anchor]


def _kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise StoreUnusable(NEEDS_YAML) from error
    return yaml


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


class Pattern:
    """With `only_ascii`, `\\w` and the like match ASCII only."""

    __slots__ = ("_compiled", "_only_ascii", "_text")

    def __init__(self, text: str, *, only_ascii: bool = False) -> None:
        self._text, self._only_ascii = text, only_ascii
        self._compiled: re.Pattern[str] | None = None

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._ready().fullmatch(text)

    def findall(self, text: str) -> list[str]:
        return self._ready().findall(text)

    def _ready(self) -> re.Pattern[str]:
        if self._compiled is None:
            import re

            self._compiled = re.compile(self._text, re.ASCII if self._only_ascii else 0)
        return self._compiled
