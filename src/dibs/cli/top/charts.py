"""The timeline and the metrics, as `dibs timeline` and `dibs stats --since` draw them.

Both read many runs or events, so they are read and drawn in threads, and read again at most every ten seconds.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

from dibs.cli.render import Paint, clean_line, number_of
from dibs.cli.series_lines import TRUNCATED, series_lines, step_seconds
from dibs.cli.timeline import LANES, NOTHING, RUNS_MAX, SINCE_SECONDS, picture

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from dibs.board import Board

READ_SECONDS = 10.0
LANES_MAX = 200
BEGIN_MS = round(SINCE_SECONDS * 1000)


class Chart(VerticalScroll):
    """A picture of the last four hours. `read` and `picture` run in threads, the rest in that of the screen."""

    HEADING = ""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, can_focus=True)
        self._text = Static(Text("reading ...", style="dim"))
        #: What was read, and until which instant on the board's clock.
        self._found: tuple[Any, int] | None = None
        self._read_at = float("-inf")
        #: A resized chart is drawn again while the board may still be read for it: one read serves both.
        self._reading = threading.Lock()

    def compose(self) -> ComposeResult:
        yield self._text

    @property
    def is_due(self) -> bool:
        return monotonic() - self._read_at >= READ_SECONDS

    def lines(self, board: Board, now: int, columns: int) -> list[str]:
        """The picture at this width, from what was read less than ten seconds ago, or else from the board."""
        with self._reading:
            if self.is_due or self._found is None:
                self._read_at = monotonic()
                self._found = self.read(board, now, columns), now
            found = self._found
        return [f" {self.HEADING}", "", *self.picture(*found, columns)]

    def show(self, lines: list[str]) -> None:
        self._text.update(Text("\n").join(_line(line) for line in lines))

    def read(self, board: Board, now: int, columns: int) -> Any:
        raise NotImplementedError

    def picture(self, found: Any, now: int, columns: int) -> list[str]:
        raise NotImplementedError


class Timeline(Chart):
    HEADING = "Timeline of the last 4 hours, a lane for each session"

    def read(self, board: Board, now: int, columns: int) -> Any:
        return board.window(from_=now - BEGIN_MS, limit=RUNS_MAX)

    def picture(self, found: Any, now: int, columns: int) -> list[str]:
        lines, left_off = picture(
            *(found, now - BEGIN_MS, now),
            by=LANES[0],
            trims=True,
            limit=LANES_MAX,
            columns=columns,
            paint=Paint(enabled=True),
        )
        notes = [f"{number_of(left_off, 'line')} left off"] if left_off else []
        if found.truncated:
            notes.append("there were more runs than shown; dibs timeline --since 1h shows a shorter time")
        return [*(lines or [NOTHING]), *notes]


class Metrics(Chart):
    HEADING = "Metrics of the last 4 hours"

    def read(self, board: Board, now: int, columns: int) -> Any:
        return board.series(from_=now - BEGIN_MS, step=step_seconds(SINCE_SECONDS, columns))

    def picture(self, found: Any, now: int, columns: int) -> list[str]:
        return [*series_lines(found, Paint(enabled=True), columns), *([TRUNCATED] if found.truncated else [])]


def _line(line: str) -> Text:
    text = Text.from_ansi(clean_line(line))
    text.no_wrap, text.overflow = True, "crop"
    return text
