"""One item in full: its claim with the time left, what `dibs show` prints of it, and its latest events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

from dibs.cli.event_lines import item_lines as history_lines
from dibs.cli.render import Paint, clean_line
from dibs.cli.top.lines import TextLine
from dibs.cli.top.panes import MARK_COLOURS, lease_of
from dibs.cli.top.rows import style_of

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from dibs.cli.top.calls import ReadItem
    from dibs.cli.top.state import BoardState


class DetailPane(VerticalScroll):
    """Shows an item that was read. Its bar follows the claim; the rest is as it was read."""

    def __init__(self, state: BoardState, *, id: str) -> None:
        super().__init__(id=id, can_focus=True)
        self.state = state
        self.read: ReadItem | None = None
        self._text, self._lease = Static(), TextLine(id="lease")

    def compose(self) -> ComposeResult:
        yield self._lease
        yield self._text

    def show(self, found: ReadItem | None, columns: int) -> None:
        same = self.read is not None and found is not None and self.read.detail.item.id == found.detail.item.id
        self.read = found
        if not same:
            self.scroll_home(animate=False)
        self._text.update(Text() if found is None else _text(found, columns))
        self.draw()

    def draw(self) -> None:
        held = None if self.read is None else self.state.holdings.get(self.read.detail.item.id)
        if self._lease.display != (held is not None):
            self._lease.display = held is not None
        if held is not None:
            lease, left, mark = lease_of(self.state, held)
            self._lease.show(Text(f" {lease} {left} {mark}", style=style_of(MARK_COLOURS[mark])))


def _text(found: ReadItem, columns: int) -> Text:
    history = history_lines(found.events, Paint(enabled=True), columns)
    lines = [*found.lines, *(["", "  latest events"] if history else []), *history]
    return Text("\n").join(Text.from_ansi(clean_line(line)) for line in lines)
