"""The first and the last line of the screen: the figures of the board with the lamp, and the keys that do something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from dibs.cli.render import clean, clock, cut, width
from dibs.model import BLOCKED, IN_PROGRESS, READY, SCHEDULED

if TYPE_CHECKING:
    from dibs.cli.top.actions import Action
    from dibs.cli.top.state import BoardState

NAME_COLUMNS = 24
#: The first that fits beside the actions.
MOVES = ("Enter open  / filter  ? keys  q quit", "? keys  q quit", "? keys")
MOVES_OF_ITEM = ("Esc back  ? keys  q quit", "Esc back  ? keys", "Esc back")


class TextLine(Widget):
    """One line, drawn again only if its text changed."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.text = Text()

    def show(self, text: Text) -> None:
        if (text, text.spans, text.style) != (self.text, self.text.spans, self.text.style):
            self.text = text
            self.refresh()

    def render(self) -> Text:
        return self.text


def head(state: BoardState, name: str, needs: int, lamp: Text, columns: int) -> Text:
    """The lamp is always whole; of the figures, the last ones are left off where there is no room."""
    count = state.counts
    waits = sum(count.get(status, 0) for status in (BLOCKED, SCHEDULED))
    figures = [
        (f"{needs:,} need you", "bold magenta" if needs else "dim"),
        (f"{count.get(IN_PROGRESS, 0):,} in flight", "cyan"),
        (f"{count.get(READY, 0):,} ready", "green"),
        (f"{waits:,} wait", "dim"),
    ]
    text = Text(no_wrap=True)
    room = max(1, min(NAME_COLUMNS, columns - lamp.cell_len - len("dibs  ")))
    text.append("dibs ", style="bold").append(cut(clean(name), room), style="bold")
    for words, style in figures:
        if width(text.plain) + 2 + len(words) + 2 + lamp.cell_len <= columns:
            text.append("  ").append(words, style=style)
    text.append(" " * max(1, columns - text.cell_len - lamp.cell_len))
    return text.append_text(lamp)


def lamp(*, away_since: int | None, why: str, paused: bool, columns: int) -> Text:
    if away_since is not None:
        reason = cut(clean(why), max(0, columns - 60))
        return Text(f"✕ away since {clock(away_since)}" + (f": {reason}" if reason else ""), style="bold red")
    if paused:
        return Text("‖ paused", style="bold yellow")
    return Text("● live", style="green")


def foot(actions: list[Action], item: str | None, columns: int, *, is_open: bool) -> Text:
    """What the keys do to the item under the cursor, and how to move on."""
    text = Text(no_wrap=True)
    for action in actions:
        text.append(f" {action.key}", style="bold").append(f" {action.label} ")
    moves = next((one for one in (MOVES_OF_ITEM if is_open else MOVES) if text.cell_len + len(one) + 2 <= columns), "")
    room = columns - text.cell_len - len(moves) - 4
    if item and actions and room >= 8:
        text.append(f"· {cut(clean(item), room - 2)}", style="dim")
    text.append(" " * max(1, columns - text.cell_len - len(moves) - 1)).append(moves, style="dim")
    return text
