"""How things look to people: clean text, colours, columns that fit, times as one says them.

Whatever comes from a board goes through `clean` on its way to a terminal: a title that carries control characters
could otherwise move the cursor, retitle the window or hide what it says. Programs use `--json`.
"""

from __future__ import annotations

import os
import time

from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

REPLACEMENT = "\ufffd"
ELLIPSIS = "\u2026"
#: A column that has to give way keeps at least this much.
COLUMN_MIN = 8
GAP = "  "
#: What `Paint` puts before its codes, and after the text.
START, END = "\x1b[", "\x1b[0m"

CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "bright yellow": "93",
    "bright blue": "94",
    "bright magenta": "95",
    "bright cyan": "96",
}
KNOWN_CODES = frozenset({"0", *CODES.values()})
#: Agents are told apart by these.
AGENT_COLOURS = ("cyan", "magenta", "blue", "yellow", "bright cyan", "bright magenta", "bright blue", "bright yellow")
STATUS_COLOURS = {
    "pending_approval": "magenta",
    "blocked": "yellow",
    "scheduled": "blue",
    "ready": "green",
    "in_progress": "cyan",
    "parked": "dim",
    "done": "dim",
    "failed": "red",
    "rejected": "dim",
    "cancelled": "dim",
}
OUTCOME_COLOURS = {
    "done": "green",
    "submitted": "magenta",
    "failed": "red",
    "rejected": "red",
    "expired": "yellow",
    "owner_died": "red",
    "force_released": "magenta",
    "restored": "magenta",
}


class Paint:
    """Puts colour around clean text, or does not."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    @classmethod
    def for_stream(cls, stream: Any, *, plain: bool = False) -> Paint:
        wanted = not plain and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(wanted and stream.isatty())

    def __call__(self, text: str, *styles: str) -> str:
        text = clean(text)
        codes = ";".join(CODES[style] for style in styles if style)
        return f"{START}{codes}m{text}{END}" if self.enabled and codes and text else text

    def agent(self, name: str) -> str:
        return self(clean(name), agent_colour(name))


def agent_colour(name: str) -> str:
    """The same colour for the same agent, in every command and on every day."""
    from zlib import crc32

    return AGENT_COLOURS[crc32(name.encode("utf-8", "replace")) % len(AGENT_COLOURS)]


def clean(text: str) -> str:
    """One line of text that a terminal shows and does not obey: what is no visible character is replaced visibly."""
    return text if text.isprintable() else "".join(map(_visible, text))


def clean_line(line: str) -> str:
    """A line that may hold colours of `Paint`: everything else in it is clean."""
    if line.isprintable():
        return line
    first, *painted = line.split(START)
    return clean(first) + "".join(map(_clean_painted, painted))


def _clean_painted(text: str) -> str:
    codes, end, rest = text.partition("m")
    if end and all(code in KNOWN_CODES for code in codes.split(";")):
        return f"{START}{codes}m{clean(rest)}"
    return clean(START + text)


def paragraphs(text: str, indent: str) -> list[str]:
    """Text of several lines, each clean and indented."""
    return [(indent + clean(line)).rstrip() for line in text.expandtabs(4).splitlines()]


def width(text: str) -> int:
    """How many columns clean text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(c) in ("Mn", "Me") else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, columns: int) -> str:
    """Clean text in at most this many columns; what was cut off is shown as an ellipsis."""
    if width(text) <= columns:
        return text
    if columns <= 0:
        return ""
    end = taken = 0
    while taken + (more := width(text[end])) < columns:
        end, taken = end + 1, taken + more
    return text[:end].rstrip() + ELLIPSIS


def table(
    rows: Sequence[Sequence[str]],
    *,
    header: Sequence[str] = (),
    styles: Sequence[Sequence[str]] = (),
    shrink: Sequence[int] = (),
    right: Sequence[int] = (),
    columns: int | None = None,
    paint: Paint,
    indent: str = "",
) -> list[str]:
    """Rows as aligned lines. What is too wide is taken from the widest of the `shrink` columns, then cut at the edge.

    `styles` gives each row's cells their colours, in the same shape; `columns` is None where nothing has to fit.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    painted = [[*row, *[""] * len(cells[0])] for row in styles] if cells else []
    if header and cells:
        cells.insert(0, list(header))
        painted.insert(0, ["dim"] * len(header))
    widths = [max(width(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    if columns is not None:
        _shrink(widths, shrink, columns - len(indent) - len(GAP) * (len(widths) - 1))
    lines = []
    for number, row in enumerate(cells):
        line, room = indent, None if columns is None else columns - len(indent)
        for i, cell in enumerate(row):
            fits = widths[i] if room is None else min(widths[i], room)
            text = cut(cell, fits)
            pad = " " * (fits - width(text))
            style = painted[number][i] if number < len(painted) else ""
            shown = pad + paint(text, style) if i in right else paint(text, style) + pad
            line += shown + GAP
            if room is not None:
                room = max(0, room - widths[i] - len(GAP))
        lines.append(line.rstrip())
    return lines


def terminal_columns(stream: Any) -> int | None:
    """How wide the stream's terminal is; None if it is none and everything fits."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def ago(at: int | None) -> str:
    """An instant as people say it. By this machine's clock, which is good enough for reading."""
    if at is None:
        return ""
    seconds = time.time() - at / 1000
    return "now" if seconds < 1 else f"{times.span(seconds)} ago"


def clock(at: int) -> str:
    """An instant as local time; with its day if that is not today."""
    then, today = time.localtime(at / 1000), time.localtime()
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M", then)


def until(at: int) -> str:
    """An instant that lies ahead: when it is, and how far away; by this machine's clock, as for `ago`."""
    return f"{clock(at)}, in {times.span(max(0, at / 1000 - time.time()))}"


def held_until(at: int, condition: str = times.WHILE_ALIVE) -> str:
    """`until` an instant; of one so far ahead that no clock ends it, the condition."""
    return condition if at / 1000 - time.time() > times.ENDLESS_SECONDS else f"until {clock(at)}"


def number_of(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _shrink(widths: list[int], shrink: Sequence[int], room: int) -> None:
    """Take from the widest of the columns that may give way, as long as it takes and they have something to give."""
    for _ in range(sum(widths) - room):
        widest = max(shrink, key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= COLUMN_MIN:
            return
        widths[widest] -= 1


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    from unicodedata import category

    kind = category(character)
    if kind == "Zs":
        return " "
    # Private use and characters newer than this Python's tables steer nothing; they stay.
    return character if kind in ("Co", "Cn") else REPLACEMENT
