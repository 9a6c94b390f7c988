"""A list on the screen: one line for each row, columns that fit the width, and a cursor.

Only lines that changed are drawn again, since most of a terminal over ssh is the traffic. Colours are the sixteen of
the terminal. Every text goes through `clean`: a title cannot send control sequences.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from dibs.cli.render import clean, cut, width
from dibs.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from dibs.cli.top.state import BoardState

    #: A text and its style.
    Cell = tuple[str, str]
    Line = tuple[Cell, ...]
    #: The number of each column that is shown, and its room.
    Layout = tuple[tuple[int, int], ...]

GAP = 1
BAR = " ▏▎▍▌▋▊▉█"
HATCH = "▒"
#: The sign before a row, by whether it is selected and whether the cursor is on it.
MARKS = {(False, False): " ", (False, True): "▸", (True, False): "●", (True, True): "◉"}


class Column(Value):
    """`columns` is its width, or with `grows` the least one; it is left out of lists that are narrower than `least`."""

    title: str
    columns: int
    grows: int = 0
    least: int = 0
    right: bool = False


class Rows(Widget, can_focus=True):
    """The first line is the title. The row under the cursor stays where it is while others come and go."""

    TITLE = ""
    COLUMNS: tuple[Column, ...] = ()
    EMPTY = ""
    #: Whether rows can be selected, to act on several items at once.
    SELECTS = False

    class Moved(Message):
        """The cursor is on another row, or the list was chosen."""

        def __init__(self, rows: Rows) -> None:
            super().__init__()
            self.rows = rows

    class Opened(Message):
        """A row was clicked that had the cursor already."""

        def __init__(self, rows: Rows) -> None:
            super().__init__()
            self.rows = rows

    def __init__(self, state: BoardState, *, id: str) -> None:
        super().__init__(id=id)
        self.state = state
        self.keys: list[str] = []
        #: The rows that belong to the list, without one that is shown because the cursor is on it.
        self.count = 0
        self.cursor: str | None = None
        #: Whether the keys of the screen act on this list.
        self.is_chosen = False
        self.selected: set[str] = set()
        #: The row that was selected last.
        self._anchor: str | None = None
        #: How many lines a row takes: on a wall display, an empty one follows each.
        self.pitch = 1
        self._first = 0
        self._lines: list[Line] = []
        self._columns = self._height = 0

    # What a list shows

    def find(self) -> list[str]:
        """The keys of all rows, in order."""
        raise NotImplementedError

    def cells(self, key: str) -> Sequence[Cell]:
        """The cells of a row; of one that has left the list while the cursor was on it, too."""
        raise NotImplementedError

    def item_of(self, key: str) -> str | None:
        """The item that an action on this row is about."""
        return key

    def heading(self) -> str:
        return f"{self.TITLE} {self.count:,}" if self.count else self.TITLE

    # The cursor

    @property
    def item(self) -> str | None:
        return None if self.cursor is None else self.item_of(self.cursor)

    def move(self, step: int) -> None:
        if self.keys:
            at = self.keys.index(self.cursor) + step if self.cursor in self.keys else 0
            self.cursor = self.keys[max(0, min(at, len(self.keys) - 1))]
            self._fill()
            self.draw()
            self.post_message(self.Moved(self))

    # The selection

    def toggle(self) -> None:
        if self.cursor is not None:
            self.selected ^= {self.cursor}
            self._anchor = self.cursor
            self.draw()

    def extend(self) -> None:
        """Select everything between the row that was selected last and the cursor."""
        if self.cursor in self.keys:
            to = self.keys.index(self.cursor)
            since = self.keys.index(self._anchor) if self._anchor in self.keys else to
            self.selected.update(self.keys[min(since, to) : max(since, to) + 1])
            self.draw()

    def deselect(self) -> None:
        self.selected.clear()
        self._anchor = None
        self.draw()

    def find_again(self) -> None:
        """The list is another one now: what does not belong to it leaves it, also under the cursor."""
        self.keys = []
        self.draw(read=True)
        self.post_message(self.Moved(self))

    def choose(self, chosen: bool) -> None:
        self.is_chosen = chosen
        self.draw()
        if chosen:
            self.post_message(self.Moved(self))

    def on_click(self, event: events.Click) -> None:
        at = self._first + (event.y - 1) // self.pitch
        if event.y > 0 and at < len(self.keys):
            was, self.cursor = self.cursor, self.keys[at]
            self.draw()
            self.post_message(self.Opened(self) if was == self.cursor else self.Moved(self))

    def on_mouse_scroll_down(self) -> None:
        self.move(3)

    def on_mouse_scroll_up(self) -> None:
        self.move(-3)

    def on_resize(self) -> None:
        self._lines = []
        self._fill()
        self.draw()

    # Drawing

    def draw(self, *, read: bool = False) -> None:
        """Show the rows as they are at this second; with `read`, find them again first."""
        self._columns, self._height = self.size
        if not self.display or not self._height:
            return
        if read or not self.keys:
            self._find()
        self._scroll()
        layout = _layout(self.COLUMNS, self._columns)
        shown = self.keys[self._first : self._first + self._room]
        blank: list[Line] = [()] * (self.pitch - 1)
        lines = [self._title(), *(line for key in shown for line in (self._row(key, layout), *blank))]
        if not self.keys:
            lines.append(((f" {self.EMPTY}", "dim"),))
        lines = lines[: self._height] + [()] * (self._height - len(lines))
        old, self._lines = self._lines, lines
        if len(old) != len(lines):
            self.refresh()
        elif changed := [y for y, pair in enumerate(zip(old, lines, strict=True)) if pair[0] != pair[1]]:
            self.refresh(*(Region(0, y, self._columns, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else ()
        strip = Strip([Segment(text, style_of(style)) for text, style in line if text])
        return strip.adjust_cell_length(self.size.width)

    def _find(self) -> None:
        before, self.keys = self.keys, self.find()
        self.count = len(self.keys)
        # What is not in the list any more must not be acted on unseen.
        self.selected.intersection_update(self.keys)
        if not self.is_chosen:
            self.cursor = self.keys[0] if self.keys else None
            self._first = 0
        elif self.cursor is None or self.cursor not in before:
            self.cursor = self.cursor if self.cursor in self.keys else next(iter(self.keys), None)
        else:
            was = before.index(self.cursor)
            if self.cursor not in self.keys:
                self.keys.insert(min(was, len(self.keys)), self.cursor)
            self._first += self.keys.index(self.cursor) - was

    def _scroll(self) -> None:
        """Keep the cursor in sight, without a step of its own: there may be room left below the last row."""
        if self.cursor in self.keys:
            at = self.keys.index(self.cursor)
            self._first = max(0, at - self._room + 1, min(self._first, at))
        else:
            self._fill()

    def _fill(self) -> None:
        self._first = max(0, min(self._first, len(self.keys) - self._room))

    @property
    def _room(self) -> int:
        """How many rows there is room for, below the title."""
        return max(1, (self._height - 1) // self.pitch)

    def _title(self) -> Line:
        text = f" {clean(self.heading())} " + (f"· {len(self.selected):,} selected " if self.selected else "")
        more = len(self.keys) - self._first - self._room
        beyond = " ".join((f"↑{self._first:,}" if self._first else "", f"↓{more:,}" if more > 0 else "")).strip()
        beyond = f" {beyond} " if beyond else ""
        rule = "─" * max(0, self._columns - 1 - width(text) - len(beyond))
        style = "bold" if self.is_chosen else "dim"
        return (("─", "dim"), (text, style), (rule, "dim"), (beyond, style))

    def _row(self, key: str, layout: Layout) -> Line:
        under = self.is_chosen and key == self.cursor
        cells = self.cells(key)
        line: list[Cell] = [(MARKS[key in self.selected, under], "")]
        for at, room in layout:
            text, style = cells[at]
            line.append((_fit(text, room, self.COLUMNS[at].right), style))
        if not under:
            return tuple(line)
        text = "".join(text for text, _ in line)
        return ((text + " " * (self._columns - width(text)), "reverse"),)


@lru_cache(maxsize=64)
def _layout(columns: tuple[Column, ...], width: int) -> Layout:
    """The columns that are shown at this width."""
    shown = [(at, column) for at, column in enumerate(columns) if width >= column.least]
    spare = max(0, width - 2 - sum(column.columns + GAP for _, column in shown))
    grows = sum(column.grows for _, column in shown) or 1
    return tuple((at, column.columns + spare * column.grows // grows) for at, column in shown)


@lru_cache(maxsize=4096)
def _fit(text: str, room: int, right: bool) -> str:
    """The text in exactly this room, and the gap behind it. Most texts are drawn again and again."""
    text = cut(clean(text), room)
    pad = " " * (room - width(text))
    return (pad + text if right else text + pad) + " " * GAP


def bar(share: float, columns: int) -> str:
    """As much of the columns as the share, to an eighth of one."""
    eighths = round(max(0.0, min(1.0, share)) * columns * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (BAR[rest] if rest else "")).ljust(columns)


@cache
def style_of(name: str) -> Style:
    """A style by the names that the other commands use."""
    return Style.parse(name.replace("bright ", "bright_")) if name else Style.null()
