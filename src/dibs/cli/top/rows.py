"""A list on the screen: one line for each row, columns that fit the width, and a cursor.

Only lines that changed are drawn again, since most of a terminal over ssh is the traffic. Colours are the sixteen of
the terminal. Every text goes through `clean`: a title cannot send control sequences.
"""

from __future__ import annotations

from functools import cache
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

GAP = 1
BAR = " ▏▎▍▌▋▊▉█"
HATCH = "▒"


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
        self._first = 0
        self._lines: list[Strip] = []

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
        at = self._first + event.y - 1
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
        if not self.display or not self.size.height:
            return
        if read or not self.keys:
            self._find()
        self._scroll()
        lines = [self._title(), *map(self._row, self.keys[self._first : self._first + self.size.height - 1])]
        if not self.keys:
            lines.append(((f" {self.EMPTY}", "dim"),))
        strips = [_strip(line, self.size.width) for line in lines[: self.size.height]]
        strips += [Strip.blank(self.size.width)] * (self.size.height - len(strips))
        old, self._lines = self._lines, strips
        if len(old) != len(strips):
            self.refresh()
        elif changed := [y for y, pair in enumerate(zip(old, strips, strict=True)) if pair[0] != pair[1]]:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        return self._lines[y] if y < len(self._lines) else Strip.blank(self.size.width)

    def _find(self) -> None:
        before, self.keys = self.keys, self.find()
        self.count = len(self.keys)
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
        return max(1, self.size.height - 1)

    def _title(self) -> Line:
        text = f" {clean(self.heading())} "
        more = len(self.keys) - self._first - (self.size.height - 1)
        beyond = " ".join((f"↑{self._first:,}" if self._first else "", f"↓{more:,}" if more > 0 else "")).strip()
        beyond = f" {beyond} " if beyond else ""
        rule = "─" * max(0, self.size.width - 1 - width(text) - len(beyond))
        style = "bold" if self.is_chosen else "dim"
        return (("─", "dim"), (text, style), (rule, "dim"), (beyond, style))

    def _row(self, key: str) -> Line:
        under = self.is_chosen and key == self.cursor
        shown = [column for column in self.COLUMNS if self.size.width >= column.least]
        cells = [cell for column, cell in zip(self.COLUMNS, self.cells(key), strict=True) if column in shown]
        spare = self.size.width - 2 - sum(column.columns + GAP for column in shown)
        grows = sum(column.grows for column in shown) or 1
        line: list[Cell] = [("▸" if under else " ", "")]
        for column, (text, style) in zip(shown, cells, strict=True):
            room = column.columns + max(0, spare) * column.grows // grows
            text = cut(clean(text), room)
            pad = " " * (room - width(text))
            line += [(pad + text if column.right else text + pad, style), (" " * GAP, "")]
        if not under:
            return tuple(line)
        text = "".join(text for text, _ in line)
        return ((text + " " * (self.size.width - width(text)), "reverse"),)


def bar(share: float, columns: int) -> str:
    """As much of the columns as the share, to an eighth of one."""
    eighths = round(max(0.0, min(1.0, share)) * columns * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (BAR[rest] if rest else "")).ljust(columns)


@cache
def style_of(name: str) -> Style:
    return Style.parse(name) if name else Style.null()


def _strip(line: Line, columns: int) -> Strip:
    strip = Strip([Segment(text, style_of(style)) for text, style in line if text])
    return strip.adjust_cell_length(columns)
