"""JSON as text with positions, for edits that keep every other character. Comments and trailing commas are allowed, as
several clients allow them in their settings.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from dibs.agents.setup.edit import Insertion
from dibs.errors import Invalid

DEFAULT_INDENT = "  "
#: Deeper nesting than any settings file has.
DEPTH_MAX = 100

_BLANK = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")


@dataclass
class Node:
    """A value, from `start` to `end`. The members of an object or an array are in order; `keys` are an object's."""

    start: int
    end: int
    value: Any
    members: list[Node] = field(default_factory=list)
    #: Where each member begins: an object's with its key.
    starts: list[int] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def get(self, key: str) -> Node | None:
        return self.members[self.keys.index(key)] if key in self.keys else None


def parse(text: str, path: str) -> Node:
    return _Scanner(text, path).document()


def add_member(text: str, container: Node, key: str | None, value: Any) -> list[Insertion]:
    """The insertions that add a last member, in the style of the text."""
    style = _Style(text)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if not container.members:
        outer = _indent(text, container.start)
        new = name + style.rendered(value, outer + style.unit)
        return [Insertion(container.start + 1, style.newline + outer + style.unit + new + style.newline + outer)]
    last = container.members[-1].end
    end = _after_blank(text, last)
    has_comma = text[end] == ","
    # Comments after the last member stay beside it.
    comments = text[last:end].rstrip()
    at = end + 1 if has_comma else last + len(comments)
    if _begins_line(text, container.starts[0]) or "//" in comments:
        indent = _indent(text, container.starts[-1])
        new = style.newline + indent + name + style.rendered(value, indent)
    else:
        new = f" {name}{json.dumps(value, ensure_ascii=False)}"
    if has_comma:
        return [Insertion(at, new + ",")]
    return [Insertion(last, ","), Insertion(at + 1, new)] if comments else [Insertion(at, "," + new)]


def without_member(text: str, container: Node, at: int) -> str:
    """The text without one member and the comma that separates it from its neighbour; comments stay."""
    start, end = container.starts[at], container.members[at].end
    following = _after_blank(text, end)
    if at > 0:
        comma = _after_blank(text, container.members[at - 1].end)
        return text[:comma] + text[comma + 1 : start].rstrip() + text[end:]
    if text[following] == ",":
        return text[:start] + text[end:following].strip() + text[following + 1 :].lstrip()
    inside = text[container.start + 1 : start].strip() + text[end : container.end - 1].strip()
    return text[: container.start + 1] + inside + text[container.end - 1 :]


def line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


class _Style:
    """The line ends and the indentation of a text."""

    def __init__(self, text: str) -> None:
        found = re.search(r"\n([ \t]+)[\"\]}{\[]", text)
        self.unit = found.group(1) if found else DEFAULT_INDENT
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def rendered(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return (self.newline + indent).join(lines)


def _begins_line(text: str, at: int) -> bool:
    line = text.rfind("\n", 0, at)
    return line >= 0 and not text[line:at].strip()


def _indent(text: str, at: int) -> str:
    """The indentation of the line of a position."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


class _Scanner:
    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path

    def document(self) -> Node:
        node = self._value(_after_blank(self.text, 0), 0)
        rest = _after_blank(self.text, node.end)
        if rest != len(self.text):
            raise self._error(rest, "something follows the end of the JSON value")
        return node

    def _value(self, at: int, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise self._error(at, f"nested more than {DEPTH_MAX} deep")
        mark = self.text[at : at + 1]
        if mark == "{" or mark == "[":
            return self._container(at, depth)
        found = _STRING.match(self.text, at) or _SCALAR.match(self.text, at)
        if found is None:
            raise self._error(at, f"{mark!r} begins no JSON value" if mark else "the text ends too early")
        try:
            return Node(at, found.end(), json.loads(found.group()))
        except ValueError:
            raise self._error(at, "this string is not JSON") from None

    def _container(self, start: int, depth: int) -> Node:
        text, is_object = self.text, self.text[start] == "{"
        node = Node(start, start, {} if is_object else [])
        at = _after_blank(text, start + 1)
        while text[at : at + 1] != ("}" if is_object else "]"):
            node.starts.append(at)
            if is_object:
                at = self._key(at, node)
            member = self._value(at, depth + 1)
            node.members.append(member)
            if is_object:
                node.value[node.keys[-1]] = member.value
            else:
                node.value.append(member.value)
            at = _after_blank(text, member.end)
            if text[at : at + 1] == ",":
                at = _after_blank(text, at + 1)
            elif text[at : at + 1] != ("}" if is_object else "]"):
                raise self._error(at, "a comma or the closing bracket is missing")
        node.end = at + 1
        return node

    def _key(self, at: int, node: Node) -> int:
        key = _STRING.match(self.text, at)
        if key is None:
            raise self._error(at, 'a key in "..." is missing')
        node.keys.append(json.loads(key.group()))
        if node.keys.count(node.keys[-1]) > 1:
            raise self._error(at, f"the key {key.group()} is there twice")
        at = _after_blank(self.text, key.end())
        if self.text[at : at + 1] != ":":
            raise self._error(at, "a colon is missing")
        return _after_blank(self.text, at + 1)

    def _error(self, at: int, what: str) -> Invalid:
        line = line_of(self.text, at)
        message = f"{self.path}, line {line}: {what}; correct the file first"
        return Invalid(message, field="file", path=self.path, line=line)
