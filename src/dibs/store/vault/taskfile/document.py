"""A task file in its parts: front matter, the part for people, the marker, and the blocks of its runs.

The part for people is a heading and the body. Reading and writing are exact: the body begins after one empty line below
the heading, if there is one, and everything from there on is the body, whatever it looks like.
"""

from __future__ import annotations

from dibs import check
from dibs.errors import Invalid
from dibs.store.vault.taskfile import front_matter
from dibs.store.vault.taskfile.front_matter import FACTS
from dibs.store.vault.taskfile.parsing import Unreadable
from dibs.store.vault.taskfile.run_blocks import MARKER, has_marker, is_marker
from dibs.value import Value

#: Some editors write it before everything else.
BYTE_ORDER_MARK = "\ufeff"
HEADING = "# "


class Document:
    """A text in its parts, which joined are the text again."""

    def __init__(self, text: str) -> None:
        if "\0" in text:
            raise Unreadable("the text has a NUL character")
        self.prefix = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
        text = text[len(self.prefix) :]
        front, rest = front_matter.split(text)
        line_end = "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"
        self.front = front or front_matter.empty(line_end)
        self.human, self.marker, self.runs = _split_at_marker(rest)

    def ensure_marker(self) -> None:
        """Add the marker, if it is missing, and a line end after it."""
        if not self.marker:
            self.marker = f"\n{MARKER}\n"
        if not self.marker.endswith("\n"):
            self.marker += "\n"

    def set_human(self, human: str) -> None:
        """Replace the part for people. If that contains a marker, the marker of dibs must follow, since the last one
        counts."""
        self.human = human
        if self.marker.startswith(MARKER):
            self.marker = "\n" + self.marker
        if has_marker(human):
            self.ensure_marker()

    def text_by_people(self) -> str:
        """Everything but the facts and the runs."""
        return "".join(chunk.lines for chunk in self.front.chunks if chunk.key != FACTS) + self.human

    def render(self) -> str:
        front, rest = self.front.render(), self.human + self.marker + self.runs
        gap = "" if not front or front.endswith("\n") or not rest else "\n"
        return self.prefix + front + gap + rest


class HumanPart(Value):
    """The part for people: the text before its heading, the line of the heading, an empty line, the body.

    Without a heading, all of it is the body and `title` is None.
    """

    before: str = ""
    heading: str = ""
    gap: str = ""
    body: str
    title: str | None = None

    def render(self) -> str:
        return self.before + self.heading + self.gap + self.body

    def with_title(self, title: str) -> HumanPart:
        """The same with another heading; only for a part that has one."""
        line_end = self.heading[len(self.heading.rstrip("\r\n")) :]
        return self.replace(heading=HEADING + title + line_end, title=title)

    def with_body(self, body: str) -> HumanPart:
        if self.title is None or not body:
            return self.replace(body=body)
        heading = self.heading if self.heading.endswith("\n") else self.heading + "\n"
        return self.replace(heading=heading, gap=self.gap or "\n", body=body)


def parse_human(text: str, *, titled: bool) -> HumanPart:
    """Split the part for people at its heading. With `titled`, the title is in the front matter, and a heading is part
    of the body."""
    before = text[: len(text) - len(text.lstrip())]
    start = before.rfind("\n") + 1
    end = text.find("\n", start) + 1 or len(text)
    title = None if titled or not text.startswith(HEADING, start) else _valid_title(text[start + len(HEADING) : end])
    if title is None:
        return HumanPart(body=text)
    rest = text[end:]
    gap = next((line_end for line_end in ("\n", "\r\n") if rest.startswith(line_end)), "")
    return HumanPart(before=text[:start], heading=text[start:end], gap=gap, body=rest[len(gap) :], title=title)


def new_human(title: str, body: str) -> HumanPart:
    """The part for people as dibs writes it into a new file."""
    return HumanPart(before="\n", heading=f"{HEADING}{title}\n", body="", title=title).with_body(body)


def _valid_title(title: str) -> str | None:
    try:
        return check.title(title)
    except Invalid:
        return None


def _split_at_marker(text: str) -> tuple[str, str, str]:
    """The text before the last marker, the marker with the line end before it, and the text after it."""
    end = len(text)
    while (start := text.rfind(MARKER, 0, end)) >= 0:
        end = start
        if start and text[start - 1] != "\n":
            continue
        stop = text.find("\n", start) + 1 or len(text)
        if is_marker(text[start:stop]):
            windows = text.endswith("\r\n", start, stop) and text.endswith("\r\n", 0, start)
            begin = max(0, start - (2 if windows else 1))
            return text[:begin], text[begin:stop], text[stop:]
    return text, "", ""
