"""The lines between the first two `---` of a file: read by key, changed line by line.

Lines that dibs does not change stay as they are, byte for byte. A line `key: value` whose meaning is beyond doubt is
read here; where anything else stands, YAML says what it means and which lines belong to which key.
"""

from __future__ import annotations

from itertools import pairwise

from dibs.model import NewItem
from dibs.store.vault.taskfile.pattern import Pattern
from dibs.store.vault.taskfile.yaml_text import BYTES_MAX, Entry, Unreadable, entries, json_value, plain
from dibs.text import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FENCE = "---"
FACTS = "dibs"
#: The keys that are ours: what stands there as one line of JSON is no matter for YAML. A payload may be larger than all
#: that people write there.
OURS = frozenset(NewItem._fields) - {"body"} | {FACTS}

_LINE = Pattern(r"([A-Za-z_][\w-]*):(?: +(.*))?")
_ELEMENT = Pattern(r"( *)- +(\S.*)")
#: Text that means itself in every YAML.
_WORDS = Pattern(r"[A-Za-z][\w./-]*(?: [\w./-]+)*", only_ascii=True)
_NOT_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_NOTHING = object()


class Chunk:
    """Lines that belong together: those of one key, or such as belong to none. `rest` is the comment behind a value."""

    __slots__ = ("key", "lines", "rest", "text", "value")

    def __init__(self, lines: str, key: str | None = None, value: Any = None, text: str | None = None) -> None:
        self.lines = lines
        self.key = key
        self.value = value
        self.text = text
        self.rest = ""


class FrontMatter:
    """What stands before the human part; `by_yaml`: some of it only YAML could tell; `absent`: it is not there, until
    something is set."""

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

    def set(self, key: str, text: str, value: Any = _NOTHING) -> None:
        """Have `key: text` there: in its place, or as the last line before our facts. It means `value`, if that is
        known."""
        line_end = "\r\n" if self.opening.endswith("\r\n") else "\n"
        value = _simple_value(text) if value is _NOTHING else value
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
    """The front matter of a text, if it has one, and what comes after it."""
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
    """Text as a value: in plain words where nobody can take it for anything else."""
    return text if _WORDS.fullmatch(text) and text.lower() not in _NOT_WORDS else json(text)


def json(data: Any) -> str:
    """Data as one line of JSON; signs that no editor shows are written as numbers."""
    text = json_text.dumps(data)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json_text.line(char)[1:-1] for char in text)


def _chunks(text: str) -> tuple[list[Chunk], bool]:
    """The lines by what belongs together, and whether it took YAML to know."""
    lines = _lines(text)
    simple: list[Chunk | None] = []
    theirs: list[str] = []
    size = 0
    for line in lines:
        chunk = _simple(line)
        simple.append(chunk)
        theirs.append(f"{chunk.key}: {{}}\n" if chunk is not None and _is_ours(chunk) else line)
        size += len(theirs[-1].encode())
        if size > BYTES_MAX:
            raise Unreadable(f"the front matter has more than {BYTES_MAX} bytes")
    alone = _without_yaml(lines, simple)
    chunks = _by_yaml(lines, simple, "".join(theirs)) if alone is None else alone
    seen: set[str] = set()
    for chunk in chunks:
        if chunk.key is None:
            continue
        if chunk.key in seen:
            raise Unreadable(f"the front matter has the key {chunk.key[:60]!r} twice")
        seen.add(chunk.key)
    return chunks, alone is None


def _lines(text: str) -> list[str]:
    """Lines with their ends; a line ends where `\\n` says so and nowhere else."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _simple(line: str) -> Chunk | None:
    """The line as a chunk, if it means one thing only; None if that is for YAML to say."""
    bare = line.rstrip("\r\n")
    if not bare.strip(" ") or bare.startswith("#"):
        return Chunk(line)
    found = _LINE.fullmatch(bare) if bare.isprintable() else None
    if found is None:
        return None
    key, text = found[1], (found[2] or "").rstrip(" ")
    value = _simple_value(text)
    return None if value is _NOTHING else Chunk(line, key, value, text)


def _simple_value(text: str) -> Any:
    if text[:1] in ('"', "[", "{"):
        return json_value(text, _NOTHING)
    if text[:1].isalnum():
        return _NOTHING if ": " in text or " #" in text or text.endswith(":") else plain(text)
    if not text:
        return None
    return json_value(text, _NOTHING) if text[0] == "-" else _NOTHING


def _without_yaml(lines: list[str], simple: list[Chunk | None]) -> list[Chunk] | None:
    """The lines one by one, and lists of words as programs write them; None if there is anything else."""
    chunks: list[Chunk] = []
    indent = ""
    for line, chunk in zip(lines, simple, strict=True):
        if chunk is not None:
            chunks.append(chunk)
            continue
        found = _ELEMENT.fullmatch(line.rstrip("\r\n"))
        value = _simple_value(found[2].rstrip(" ")) if found is not None and line.rstrip("\r\n").isprintable() else None
        last = chunks[-1] if chunks else Chunk("")
        if found is None or value is None or value is _NOTHING or last.key is None:
            return None
        if last.text == "":
            chunks[-1] = last = Chunk(last.lines, last.key, [])
            indent = found[1]
        elif last.text is not None or found[1] != indent:
            return None
        last.value.append(value)
        last.lines += line
    return chunks


def _is_ours(chunk: Chunk) -> bool:
    return chunk.key in OURS and (chunk.text or "")[:1] in ('"', "[", "{")


def _by_yaml(lines: list[str], simple: list[Chunk | None], theirs: str) -> list[Chunk]:
    """The lines put together by what YAML makes of them; of ours it is shown the keys."""
    found = entries(theirs)
    starts = [*(entry.line for entry in found), len(lines)]
    chunks = [Chunk(line) for line in lines[: starts[0]]]
    for entry, (start, end) in zip(found, pairwise(starts), strict=True):
        stop, chunk = start + 1, simple[start]
        if chunk is None or not _is_ours(chunk):
            stop = _stop(lines, start, end, entry)
            chunk = Chunk("".join(lines[start:stop]), entry.key, entry.value, entry.text)
            chunk.rest = _comment(lines, *entry.end) if entry.end[0] < stop else ""
        chunks += [chunk, *(Chunk(line) for line in lines[stop:end])]
    return chunks


def _stop(lines: list[str], start: int, end: int, entry: Entry) -> int:
    """Behind the last line of an entry. YAML lets what is indented end where the next one begins, with all that stands
    between: empty lines, and remarks at the edge, which are nobody's."""
    line, column = entry.end
    if column and start <= line < end:
        return line + 1
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return end


def _comment(lines: list[str], line: int, column: int) -> str:
    rest = lines[line][column:].rstrip()
    return rest if rest.lstrip().startswith("#") else ""
