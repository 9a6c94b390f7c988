"""Output for people: clean text, colours, tables that fit the terminal, times.

Every text from a board goes through `clean` before it is printed: control characters in a title could otherwise move
the cursor, change the window's title or hide text. Programs use `--json`.
"""

from __future__ import annotations

import os
import time

from dibs.text import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

REPLACEMENT = "\ufffd"
ELLIPSIS = "\u2026"
#: The least width that a shrunk column keeps.
COLUMN_MIN = 8
GAP = "  "
#: Before each line of a text that somebody wrote.
MARK = "| "
#: The sequences that `Paint` writes before its codes and after the text.
START, END = "\x1b[", "\x1b[0m"
#: The sequences around the address of a hyperlink (OSC 8); the text follows, and a link without an address ends it.
LINK, LINK_END = "\x1b]8;;", "\x1b\\"
#: Variables that terminals with hyperlinks set, and names of such terminals in TERM and TERM_PROGRAM.
LINKING_VARIABLES = (
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "WT_SESSION",
    "KONSOLE_VERSION",
    "DOMTERM",
    "ALACRITTY_WINDOW_ID",
)
LINKING_TERMINALS = ("kitty", "alacritty", "foot", "ghostty", "wezterm", "iterm.app", "vscode", "hyper", "rio")

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
#: The colours of the tones of `dibs.rules.event_kinds`.
TONE_COLOURS = {
    **{"plain": "", "faint": "dim", "good": "green", "active": "cyan", "warning": "yellow", "bad": "red"},
    "notable": "magenta",
}


class Paint:
    """Adds colours and hyperlinks to text, if they are enabled; cleans the text."""

    def __init__(self, enabled: bool, links: bool = False) -> None:
        self.enabled, self.links = enabled, links

    @classmethod
    def for_stream(cls, stream: Any, *, plain: bool = False) -> Paint:
        wanted = not plain and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(wanted and stream.isatty(), links=stream.isatty() and has_links(os.environ))

    def __call__(self, text: str, *styles: str) -> str:
        text = clean(text)
        codes = ";".join(CODES[style] for style in styles if style)
        return f"{START}{codes}m{text}{END}" if self.enabled and codes and text else text

    def link(self, text: str, address: str) -> str:
        """The text as a link, if the address is one of the web."""
        text = clean(text)
        return f"{LINK}{address}{LINK_END}{text}{LINK}{LINK_END}" if self.links and is_address(address) else text

    def agent(self, name: str) -> str:
        return self(clean(name), agent_colour(name))

    def outcome(self, text: str, outcome: str | None, otherwise: str) -> str:
        """The text in the colour of the outcome of a run. Without colours, a claim does not import them."""
        if not self.enabled:
            return clean(text)
        from dibs.cli.event_lines import OUTCOME_COLOURS

        return self(text, OUTCOME_COLOURS.get(outcome or "", otherwise))


def agent_colour(name: str) -> str:
    """A colour derived from the name, so that an agent has the same colour everywhere."""
    from zlib import crc32

    return AGENT_COLOURS[crc32(name.encode("utf-8", "replace")) % len(AGENT_COLOURS)]


def clean(text: str) -> str:
    """One line of text without control characters: each is replaced by a visible one."""
    return text if text.isprintable() else "".join(map(_visible, text))


def clean_line(line: str) -> str:
    """Clean a line, keeping the colours and the links that `Paint` added."""
    if line.isprintable():
        return line
    first, *linked = line.split(LINK)
    return _clean_colours(first) + "".join(map(_clean_linked, linked))


def has_links(environment: Mapping[str, str]) -> bool:
    """Whether the terminal shows hyperlinks, as far as its variables tell. FORCE_HYPERLINK overrides them."""
    if environment.get("FORCE_HYPERLINK"):
        return environment["FORCE_HYPERLINK"] != "0"
    names = f"{environment.get('TERM', '')} {environment.get('TERM_PROGRAM', '')}".lower()
    return any(map(environment.get, LINKING_VARIABLES)) or any(name in names for name in LINKING_TERMINALS)


def is_address(text: str) -> bool:
    return text.startswith(("https://", "http://")) and text.isascii() and text.isprintable() and " " not in text


def _clean_linked(text: str) -> str:
    address, end, rest = text.partition(LINK_END)
    if end and (not address or is_address(address)):
        return f"{LINK}{address}{LINK_END}{_clean_colours(rest)}"
    return clean(LINK + text)


def _clean_colours(line: str) -> str:
    first, *painted = line.split(START)
    return clean(first) + "".join(map(_clean_painted, painted))


def _clean_painted(text: str) -> str:
    codes, end, rest = text.partition("m")
    if end and all(code in KNOWN_CODES for code in codes.split(";")):
        return f"{START}{codes}m{clean(rest)}"
    return clean(START + text)


def spans(line: str) -> list[tuple[tuple[str, ...], str]]:
    """The pieces of a line that `Paint` made, each with the names of its styles."""
    names = {code: name for name, code in CODES.items()}
    first, *painted = line.split(START)
    found: list[tuple[tuple[str, ...], str]] = [((), first)]
    for text in painted:
        codes, _, rest = text.partition("m")
        found.append((tuple(names[code] for code in codes.split(";") if code in names), rest))
    return [(styles, text) for styles, text in found if text]


def without_colours(line: str) -> str:
    return "".join(text for _, text in spans(line))


def paragraphs(text: str, indent: str) -> list[str]:
    """The lines of a text, cleaned and indented."""
    return [(indent + clean(line)).rstrip() for line in text.expandtabs(4).splitlines()]


def quoted(text: str, indent: str) -> list[str]:
    """The lines of a text that somebody wrote, each with a mark: no text can pass for what dibs itself says."""
    return paragraphs(text, f"{indent}{MARK}")


def width(text: str) -> int:
    """The columns that clean text takes on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(c) in ("Mn", "Me") else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, columns: int) -> str:
    """Shorten clean text to this many columns, with an ellipsis."""
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
    keep: Sequence[int] = (),
    columns: int | None = None,
    paint: Paint,
    indent: str = "",
) -> list[str]:
    """Align rows in columns. Lines that are too wide lose width in the widest `shrink` column, then at the edge.

    `styles` holds the colours of each row's cells; `right` lists right-aligned columns; `keep` lists those that are
    never cut, like ids; `columns` is the width to fit into, or None for no limit.
    """
    cells = [[clean(cell) for cell in row] for row in rows]
    painted = [[*row, *[""] * len(cells[0])] for row in styles] if cells else []
    if header and cells:
        cells.insert(0, list(header))
        painted.insert(0, ["dim"] * len(header))
    widths = [max(width(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    if columns is not None and widths:
        for i in keep:
            # A longer cell sticks out of its column: the others keep their room.
            widths[i] = min(widths[i], kept_columns(columns))
        _shrink(widths, shrink, columns - len(indent) - len(GAP) * (len(widths) - 1))
    lines = []
    for number, row in enumerate(cells):
        line, room = indent, None if columns is None else columns - len(indent)
        for i, cell in enumerate(row):
            fits = max(widths[i], width(cell)) if i in keep else widths[i] if room is None else min(widths[i], room)
            text = cut(cell, fits)
            pad = " " * (fits - width(text))
            style = painted[number][i] if number < len(painted) else ""
            shown = pad + paint(text, style) if i in right else paint(text, style) + pad
            line += shown + GAP
            if room is not None:
                room = max(0, room - fits - len(GAP))
        lines.append(line.rstrip())
    return lines


def kept_columns(columns: int) -> int:
    """The most that a column which is never cut takes from the others."""
    return columns // 2


def terminal_columns(stream: Any) -> int | None:
    """The width of the stream's terminal; None if the stream is not a terminal."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def now_ms() -> int:
    """This machine's clock, which is accurate enough for display."""
    return int(time.time() * 1000)


def ago(at: int | None) -> str:
    """`5m ago`, by this machine's clock, which is accurate enough for display."""
    if at is None:
        return ""
    seconds = time.time() - at / 1000
    return "now" if seconds < 1 else f"{times.span(seconds)} ago"


def clock(at: int) -> str:
    """An instant in local time, with the date if it is not today."""
    then, today = time.localtime(at / 1000), time.localtime()
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M", then)


def until(at: int) -> str:
    """A future instant and the time left: `14:30:00, in 2h`."""
    return f"{clock(at)}, in {times.span(max(0, at / 1000 - time.time()))}"


def held_until(at: int, condition: str = times.WHILE_ALIVE) -> str:
    """`until 14:30:00`; for a claim that does not expire by the clock, the condition under which it lasts."""
    return condition if at / 1000 - time.time() > times.ENDLESS_SECONDS else f"until {clock(at)}"


def number_of(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def replaced(name: str, before: Sequence[str], after: Sequence[str]) -> str:
    """`labels: a, b replaced by c`."""
    change = f"replaced by {', '.join(after)}" if after else "removed"
    return clean(f"{name}: {', '.join(before)} {change}")


def _shrink(widths: list[int], shrink: Sequence[int], room: int) -> None:
    """Narrow the widest of the `shrink` columns, one character at a time, until the row fits or none can shrink."""
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
    # Private-use characters, and ones newer than this Python's tables, control nothing.
    return character if kind in ("Co", "Cn") else REPLACEMENT
