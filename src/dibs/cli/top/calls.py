"""What the screen asks the board besides following it. These functions wait for the board, so they run in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.cli.context import Cli
from dibs.cli.listing import OPEN
from dibs.cli.render import Paint, table
from dibs.cli.show import item_lines
from dibs.cli.top import attention
from dibs.model import ENDED
from dibs.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.board import Board
    from dibs.cli.parser import Args
    from dibs.model import Detail, Event
    from dibs.model.dashboard import Paged

EVENTS_SHOWN = 12
PAGE = 200


class ReadItem(Value):
    """An item as it was read, the lines that `dibs show` prints of it, and its latest events, newest first."""

    detail: Detail
    lines: tuple[str, ...]
    events: tuple[Event, ...]


class Printer(Cli):
    """What `dibs show` prints with, at the width of a part of the screen."""

    def __init__(self, args: Args, board: Board, columns: int) -> None:
        super().__init__(args)
        self._board, self._paint, self._columns = board, Paint(enabled=True), columns

    def table(self, rows: Sequence[Sequence[str]], **layout: Any) -> list[str]:
        return table(rows, columns=self._columns, paint=self.paint, **layout)


def read_item(printer: Printer, item: str) -> ReadItem:
    board = printer.board
    detail = board.get(item)
    events = board.events(item=item, newest=True, limit=EVENTS_SHOWN)[::-1]
    return ReadItem(detail=detail, lines=tuple(item_lines(printer, detail)), events=tuple(events))


def needs_page(text: str, left_off: int) -> bool:
    """Whether a filter may find items that the screen does not know."""
    fields, _ = attention.parse(text)
    return bool(text) and bool(left_off or fields.get("status", set()) & ENDED)


def read_page(board: Board, text: str) -> Paged:
    """The first items that match a filter."""
    fields, words = attention.parse(text)
    wanted: dict[str, Any] = {name: tuple(fields.get(name, ())) for name in ("status", "project", "type", "label")}
    wanted["status"] = wanted["status"] or OPEN
    agent = next(iter(fields.get("agent", ())), None)
    return board.page(**wanted, agent=agent, q=" ".join(words) or None, limit=PAGE)
