"""Front matter: the lines between the first two `---` of a file, read by key and changed line by line.

Lines that dibs does not change stay as they are, byte for byte. An unambiguous line `key: value` is parsed here; if
there is any other line, a YAML parser finds the values and the lines of each key.
"""

from __future__ import annotations

from itertools import pairwise

from dibs.model import NewItem
from dibs.store.vault.taskfile.parsing import BYTES_MAX, Entry, Pattern, Unreadable, entries, json_value, plain
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FENCE = "---"
FACTS = "dibs"
#: The keys of dibs. Their values, as one line of JSON, are not given to the YAML parser: a payload may be large.
OWN_KEYS = frozenset(NewItem._fields) - {"body"} | {FACTS}

_LINE = Pattern(r"([A-Za-z_][\w-]*):(?: +(.*))?")
_ELEMENT = Pattern(r"( *)- +(\S.*)")
#: Text that needs no quotes in any YAML.
_PLAIN_TEXT = Pattern(r"[A-Za-z][\w./-]*(?: [\w./-]+)*", only_ascii=True)
_NOT_PLAIN = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_UNKNOWN = object()


class Chunk:
    """The lines of one key, or a line that belongs to none. `rest` is the comment after a value."""

    __slots__ = ("key", "lines", "rest", "text", "value")

    def __init__(self, lines: str, key: str | None = None, value: Any = None, text: str | None = None) -> None:
        self.lines = lines
        self.key = key
        self.value = value
        self.text = text
        self.rest = ""


class FrontMatter:
    """`by_yaml`: a YAML parser was needed; `absent`: the file has no front matter until a key is set."""

    def __init__(
        self, opening: str, chunks: list[Chunk], closing: str, *, by_yaml: bool = False, absent: bool = False
    ) -> None:
        self.opening = opening
        self.chunks = chunks
        self.closing = closing
        self.by_yaml = by_yaml
        self.absent = absent

    def get(self, key: str) -> Chunk | None:
        return next((chunk for chunk in self.chunks if chunk.key == key), None)

    def set(self, key: str, text: str, value: Any = _UNKNOWN) -> None:
        """Set a line `key: text`: in its place, or before the facts. `value` is its value, if the caller knows it."""
        line_end = "\r\n" if self.opening.endswith("\r\n") else "\n"
        value = _simple_value(text) if value is _UNKNOWN else value
        old = self.get(key)
        if old is not None:
            old.lines, old.value, old.text = f"{key}: {text}{old.rest}{line_end}", value, text
            return
        facts = self.get(FACTS)
        at = len(self.chunks) if facts is None else self.chunks.index(facts)
        self.chunks.insert(at, Chunk(f"{key}: {text}{line_end}", key, value, text))

    def remove(self, key: str) -> None:
        self.chunks = [chunk for chunk in self.chunks if chunk.key != key]

    def render(self) -> str:
        if self.absent and not self.chunks:
            return ""
        return self.opening + "".join(chunk.lines for chunk in self.chunks) + self.closing


def split(text: str) -> tuple[FrontMatter | None, str]:
    """The front matter of a text, if it has one, and the rest of the text."""
    first_end = text.find("\n") + 1
    if not first_end or text[:first_end].rstrip() != FENCE:
        return None, text
    at = first_end
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        if text.startswith(FENCE, at) and text[at:end].rstrip() == FENCE:
            chunks, by_yaml = _chunks(text[first_end:at])
            return FrontMatter(text[:first_end], chunks, text[at:end], by_yaml=by_yaml), text[end:]
        at = end
    return None, text


def empty(line_end: str) -> FrontMatter:
    return FrontMatter(FENCE + line_end, [], FENCE + line_end, absent=True)


def scalar(text: str) -> str:
    """Text as a value: without quotes where that is unambiguous."""
    return text if _PLAIN_TEXT.fullmatch(text) and text.lower() not in _NOT_PLAIN else json(text)


def json(data: Any) -> str:
    """Data as one line of JSON; invisible characters are escaped."""
    text = json_text.dumps(data)
    if text.isprintable():
        return text
    return text.translate({ord(char): json_text.line(char)[1:-1] for char in set(text) if not char.isprintable()})


def _chunks(text: str) -> tuple[list[Chunk], bool]:
    """The lines as chunks, and whether a YAML parser was needed."""
    lines = _lines(text)
    simple: list[Chunk | None] = []
    for_yaml: list[str] = []
    size = 0
    for line in lines:
        chunk = _simple(line)
        simple.append(chunk)
        for_yaml.append(f"{chunk.key}: {{}}\n" if chunk is not None and _is_own(chunk) else line)
        size += len(for_yaml[-1].encode())
        if size > BYTES_MAX:
            raise Unreadable(f"the front matter has more than {BYTES_MAX} bytes")
    alone = _without_yaml(lines, simple)
    chunks = _by_yaml(lines, simple, "".join(for_yaml)) if alone is None else alone
    seen: set[str] = set()
    for chunk in chunks:
        if chunk.key is None:
            continue
        if chunk.key in seen:
            raise Unreadable(f"the front matter has the key {chunk.key[:60]!r} twice")
        seen.add(chunk.key)
    return chunks, alone is None


def _lines(text: str) -> list[str]:
    """Lines with their ends. Only `\\n` ends a line."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _simple(line: str) -> Chunk | None:
    """The line as a chunk, if it is unambiguous; None if a YAML parser must decide."""
    bare = line.rstrip("\r\n")
    if not bare.strip(" ") or bare.startswith("#"):
        return Chunk(line)
    found = _LINE.fullmatch(bare) if bare.isprintable() else None
    if found is None:
        return None
    key, text = found[1], (found[2] or "").rstrip(" ")
    value = _simple_value(text)
    return None if value is _UNKNOWN else Chunk(line, key, value, text)


def _simple_value(text: str) -> Any:
    if text[:1] in ('"', "[", "{"):
        return json_value(text, _UNKNOWN)
    if text[:1].isalnum():
        return _UNKNOWN if ": " in text or " #" in text or text.endswith(":") else plain(text)
    if not text:
        return None
    return json_value(text, _UNKNOWN) if text[0] == "-" else _UNKNOWN


def _without_yaml(lines: list[str], simple: list[Chunk | None]) -> list[Chunk] | None:
    """Parse single lines, and lists with one element a line; None if there is anything else."""
    chunks: list[Chunk] = []
    indent = ""
    for line, chunk in zip(lines, simple, strict=True):
        if chunk is not None:
            chunks.append(chunk)
            continue
        found = _ELEMENT.fullmatch(line.rstrip("\r\n"))
        value = _simple_value(found[2].rstrip(" ")) if found is not None and line.rstrip("\r\n").isprintable() else None
        last = chunks[-1] if chunks else Chunk("")
        if found is None or value is None or value is _UNKNOWN or last.key is None:
            return None
        if last.text == "":
            chunks[-1] = last = Chunk(last.lines, last.key, [])
            indent = found[1]
        elif last.text is not None or found[1] != indent:
            return None
        last.value.append(value)
        last.lines += line
    return chunks


def _is_own(chunk: Chunk) -> bool:
    return chunk.key in OWN_KEYS and (chunk.text or "")[:1] in ('"', "[", "{")


def _by_yaml(lines: list[str], simple: list[Chunk | None], text: str) -> list[Chunk]:
    """Group the lines by what a YAML parser makes of `text`, in which the values of dibs are left out."""
    found = entries(text)
    starts = [*(entry.line for entry in found), len(lines)]
    chunks = [Chunk(line) for line in lines[: starts[0]]]
    for entry, (start, end) in zip(found, pairwise(starts), strict=True):
        stop, chunk = start + 1, simple[start]
        if chunk is None or not _is_own(chunk):
            stop = _stop(lines, start, end, entry)
            chunk = Chunk("".join(lines[start:stop]), entry.key, entry.value, entry.text)
            chunk.rest = _comment(lines, *entry.end) if entry.end[0] < stop else ""
        chunks += [chunk, *(Chunk(line) for line in lines[stop:end])]
    return chunks


def _stop(lines: list[str], start: int, end: int, entry: Entry) -> int:
    """The line after the last line of an entry. A YAML parser lets an indented value end where the next one begins; the
    empty lines and comments between belong to no entry."""
    line, column = entry.end
    if column and start <= line < end:
        return line + 1
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return end


def _comment(lines: list[str], line: int, column: int) -> str:
    rest = lines[line][column:].rstrip()
    return rest if rest.lstrip().startswith("#") else ""
