"""YAML that people and their programs wrote, read without trust: events are counted, nothing is constructed.

What comes out is plain data. Only the plain words of JSON mean more than text, so a date stays the text it is, and
`yes` a word. Tags, merge keys, repeated keys and aliases of whole collections are refused; so is what is too deep.
"""

from __future__ import annotations

from dibs.errors import StoreUnusable
from dibs.text import json_text
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Who reads a text here looks first that it has no more.
BYTES_MAX = 64 * 1024
DEPTH_MAX = 20
ALIASES_MAX = 20
NEEDS_YAML = "front matter like this needs PyYAML; get it with: pip install 'calldibs[vault]'"

_WORDS = {"": None, "~": None} | {
    spelling: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
}
#: What YAML takes for line ends and nobody else does: our lines would not be its lines.
_ODD_LINE_ENDS = ("\x85", "\u2028", "\u2029")


class Unreadable(Exception):
    """A text that is not to be understood, and so is not touched; says why."""


class Entry(Value):
    """One key of a mapping's first level: its value, the text of a value that is a scalar, the line it stands on, and
    where its value ends."""

    key: str
    value: Any
    text: str | None
    line: int
    end: tuple[int, int]


def entries(text: str) -> list[Entry]:
    """The first level of a block mapping, which is what front matter is, in order."""
    if any(odd in text for odd in _ODD_LINE_ENDS) or "\r" in text.replace("\r\n", ""):
        raise Unreadable("the front matter has line ends that are none")
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
    """What a word without quotes means."""
    if text in _WORDS:
        return _WORDS[text]
    return json_value(text, text) if text[0] in "-0123456789" else text


def json_value(text: str, otherwise: Any) -> Any:
    """The value that this JSON is of, each key once; `otherwise` if it is none."""
    if text in ("{}", "[]"):
        return json_text.loads(text)
    import json

    try:
        return json.loads(text, parse_constant=_refused, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        return otherwise


class _Reader:
    """The events of one document, made into data while they are counted."""

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
            raise Unreadable("the front matter has a document within")
        if _kind(event := self.next()) != "MappingStart" or event.flow_style or event.tag is not None:
            raise Unreadable("the front matter is not made of lines with a key each")
        found = self._entries()
        if self.next().explicit or _kind(self.next()) != "StreamEnd":
            raise Unreadable("the front matter has a document within")
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
        """The value that begins with this event, its text if it is a scalar, and where it ends."""
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
            raise Unreadable("the front matter has a key that is no text")
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
            raise Unreadable("the front matter has an alias of more than a word")
        return self.anchors[event.anchor]


def _kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise StoreUnusable(NEEDS_YAML) from error
    return yaml


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
