"""The first and the last line of the screen: the figures of the board with the lamp, and the keys that do something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from dibs.cli.render import clean, clock, cut, width
from dibs.model import BLOCKED, IN_PROGRESS, READY, SCHEDULED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.cli.top.state import BoardState
    from dibs.rules.actions import Action

NAME_COLUMNS = 24
#: The first that fits beside the actions.
MOVES = ("Enter open  / filter  ? keys  q quit", "? keys  q quit", "? keys")
MOVES_OF_CHART = MOVES[1:]
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


def figures(state: BoardState, needs: int) -> list[tuple[str, str]]:
    """The figures of the board, the most important first, each with its style."""
    count = state.counts
    waits = sum(count.get(status, 0) for status in (BLOCKED, SCHEDULED))
    return [
        (f"{needs:,} need you", "bold magenta" if needs else "dim"),
        (f"{count.get(IN_PROGRESS, 0):,} in flight", "cyan"),
        (f"{count.get(READY, 0):,} ready", "green"),
        (f"{waits:,} wait", "dim"),
    ]


def head(state: BoardState, name: str, needs: int, lamp: Text, columns: int) -> Text:
    """The lamp is always whole; of the figures, the last ones are left off where there is no room."""
    text = Text(no_wrap=True)
    room = max(1, min(NAME_COLUMNS, columns - lamp.cell_len - len("dibs  ")))
    text.append("dibs ", style="bold").append(cut(clean(name), room), style="bold")
    for words, style in figures(state, needs):
        if width(text.plain) + 2 + len(words) + 2 + lamp.cell_len <= columns:
            text.append("  ").append(words, style=style)
    text.append(" " * max(1, columns - text.cell_len - lamp.cell_len))
    return text.append_text(lamp)


def wall(state: BoardState, name: str, needs: int, lamp: Text, columns: int) -> Text:
    """The figures of the first line with as much room between them as there is."""
    parts = [
        Text(cut(clean(name), NAME_COLUMNS), style="bold"),
        *(Text(words, style=style) for words, style in figures(state, needs)),
    ]
    while len(parts) > 1 and sum(part.cell_len + 2 for part in parts) + lamp.cell_len > columns:
        del parts[-1]
    parts.append(lamp)
    gap, rest = divmod(columns - sum(part.cell_len for part in parts), len(parts) - 1)
    text = Text(no_wrap=True)
    for at, part in enumerate(parts):
        text.append(" " * (gap + (at <= rest) if at else 0)).append_text(part)
    return text


def lamp(*, away_since: int | None, why: str, paused: bool, columns: int) -> Text:
    if away_since is not None:
        reason = cut(clean(why), max(0, columns - 60))
        return Text(f"✕ away since {clock(away_since)}" + (f": {reason}" if reason else ""), style="bold red")
    if paused:
        return Text("‖ paused", style="bold yellow")
    return Text("● live", style="green")


def foot(actions: list[Action], about: str | None, columns: int, moves: Sequence[str]) -> Text:
    """What the keys do to what they are about, an item or a selection, and how to move on. Of the actions, the last
    ones are left off where there is no room."""
    text = Text(no_wrap=True)
    for action in actions:
        if text.cell_len + len(f" {action.key} {action.label} ") + len(moves[-1]) + 2 > columns:
            break
        text.append(f" {action.key}", style="bold").append(f" {action.label} ")
    last = next((one for one in moves if text.cell_len + len(one) + 2 <= columns), "")
    room = columns - text.cell_len - len(last) - 4
    if about and actions and room >= 8:
        text.append(f"· {cut(clean(about), room - 2)}", style="dim")
    text.append(" " * max(1, columns - text.cell_len - len(last) - 1)).append(last, style="dim")
    return text
